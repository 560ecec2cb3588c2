import tracemalloc
import zipfile

import pytest
from office_files import zip_of

from transformer_jax.documents.office.archive import Archive
from transformer_jax.errors import UserError


def root_of(part):
    """Return the root element of a part."""
    return Archive(zip_of(x=part)).roots(['x'])['x']


@pytest.mark.parametrize('method', [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_method_that_decompresses_without_limit_is_refused(method):
    data = zip_of(method, x=' ' * (16 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="'x' is neither stored nor deflated"):
            Archive(data).roots(['x'])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig', 'utf-16'])
def test_a_part_in_unicode_is_read(encoding):
    part = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?><x>é\u4e00</x>'
    assert root_of(part.encode(encoding)).text == 'é\u4e00'


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-16'])
@pytest.mark.parametrize(
    'declaration',
    [
        '<?xml version="1.0" encoding="UTF-7"?>',
        "\ufeff<?xml version='1.0' encoding = 'UTF-7' ?>",
        '<?xml version="1.0" encoding="UTF-7"standalone="yes"?>',
    ],
)
def test_a_part_in_another_encoding_is_refused(declaration, encoding):
    with pytest.raises(UserError, match="encoding is 'UTF-7', not UTF-8 or UTF-16"):
        root_of(f'{declaration}<x/>'.encode(encoding))


def test_no_declaration_hides_tags_from_their_count():
    blanks = ' ' * 300  # the encoding is beyond what is searched
    root = root_of(f'<?xml version="1.0"{blanks}encoding="UTF-7"?><x>+ADw-y/+AD4-</x>')
    assert root.text == '+ADw-y/+AD4-'
