import io
import struct
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


class Pipe(io.BytesIO):
    """A file in which sizes follow their parts, because it cannot go back to the headers."""

    def seekable(self):
        return False

    def tell(self):
        raise OSError


def test_parts_that_are_not_replaced_keep_their_bytes_and_what_their_headers_say():
    pipe = Pipe()
    with zipfile.ZipFile(pipe, 'w') as archive:
        archive.comment = b'comment'
        archive.writestr('mimetype', b'application/x')
        archive.writestr('x', b'<x>1</x>', zipfile.ZIP_DEFLATED)
        archive.writestr('é.png', bytes(10_000), zipfile.ZIP_DEFLATED)
        archive.getinfo('é.png').external_attr = 0  # as word processors leave it
    before = Archive(pipe.getvalue())
    data = before.replaced(before.roots(['x']))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert archive.comment == b'comment'
        assert archive.namelist() == before.names
        assert archive.read('é.png') == bytes(10_000)
        infos = archive.infolist()
    assert [info.compress_type for info in infos] == [0, 8, 8]
    assert infos[-1].external_attr == 0
    for info in infos:
        header = struct.unpack_from('<4s5H3L', data, info.header_offset)
        sizes = (info.CRC, info.compress_size, info.file_size)
        assert header[:4] == (b'PK\3\4', info.extract_version, info.flag_bits, info.compress_type)
        assert header[6:] == sizes


def test_a_name_in_an_old_encoding_is_written_in_utf8_in_both_headers():
    data = zip_of(x=b'<x/>', name=b'a').replace(b'name', b'\xe2ame')  # CP437
    before = Archive(data)
    assert before.names == ['x', 'Γame']
    data = before.replaced(before.roots(['x']))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read('Γame') == b'a'
        (flags,) = struct.unpack_from('<H', data, archive.getinfo('Γame').header_offset + 6)
    assert flags == 1 << 11


def test_a_part_with_a_password_is_copied():
    data = bytearray(zip_of(x=b'<x/>', secret=b'secret'))
    for signature, at in ((b'PK\3\4', 6), (b'PK\1\2', 8)):
        data[data.rindex(signature) + at] |= 1
    before = Archive(bytes(data))
    with zipfile.ZipFile(io.BytesIO(before.replaced(before.roots(['x'])))) as archive:
        assert archive.getinfo('secret').flag_bits == 1
        with pytest.raises(RuntimeError, match='password'):
            archive.read('secret')


def test_a_part_of_more_than_two_gigabytes_is_refused():
    data = bytearray(zip_of(x=b'<x/>'))
    struct.pack_into('<L', data, data.index(b'PK\1\2') + 24, 2_000_000_001)
    with pytest.raises(UserError, match="'x' has more than 2 GB"):
        Archive(bytes(data))
