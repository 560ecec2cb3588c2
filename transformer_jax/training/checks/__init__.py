"""What a training refuses: before its first step, when it resumes, when numbers are not finite."""
