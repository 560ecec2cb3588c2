"""What happens to pairs before they are tokenised: filters, copies of cases, a report."""
