"""Zip files of XML parts, as word processors write them, from people who may mean harm."""

import copy
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from transformer_jax.errors import UserError, first_line, shown

try:
    from lxml import etree
except ModuleNotFoundError as error:
    raise UserError(
        "such a file needs a package: pip install 'transformer_jax[documents]'."
    ) from error

# Small files can become huge: limits on the bytes of all parts that are read, and on their tags.
_MOST_MEBIBYTES = 32
_MOST_TAGS = 1_000_000
_MOST_ATTRIBUTES = 2_000_000
# Bytes of one part. Larger ones have other headers (ZIP64).
_MOST_OF_ONE = 2_000_000_000
# The methods that the formats allow. For others, zipfile decompresses more than it was asked for.
_METHODS = frozenset([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
# An XML declaration that names another encoding than those that all readers of XML know.
_OTHER_ENCODING = re.compile(
    rb'<\?xml[^>]*\sencoding\s*=\s*["\'](?!utf-?(?:8|16|16le|16be)["\'])([\w.:-]*)', re.IGNORECASE
)
# What zipfile raises for damaged files.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,
    OSError,
    OverflowError,
)


class Archive:
    """A zip file, in which parts are replaced.

    Attributes:
      names: of its parts.
    """

    def __init__(self, data: bytes):
        """Take the bytes of the file.

        Raises:
          UserError: if it is no zip file, damaged, or compressed by another method than deflate.
        """
        self._data = data
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                self._infos, self._comment = archive.infolist(), archive.comment
        except _DAMAGE as error:
            raise _damaged(error) from None
        for info in self._infos:
            if info.compress_type not in _METHODS:
                raise _damaged(f'{shown(info.filename)} is neither stored nor deflated')
            if max(info.file_size, info.compress_size) > _MOST_OF_ONE:
                raise _damaged(f'{shown(info.filename)} has more than 2 GB')
        # Otherwise a small file could have the same large part many times.
        if sum(info.compress_size for info in self._infos) > len(data):
            raise _damaged('parts overlap')
        self.names = [info.filename for info in self._infos]
        if len({*self.names}) < len(self.names):
            raise _damaged('two parts have one name')

    def roots(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the root element of each of these parts.

        Raises:
          UserError: if one is missing, damaged, encrypted, has a DTD or is neither UTF-8 nor
            UTF-16, or all are too large.
        """
        most = _MOST_MEBIBYTES << 20
        found, tags, attributes = {}, 0, 0
        encrypted = {info.filename for info in self._infos if info.flag_bits & 1}
        if encrypted.intersection(names):
            raise UserError('the file has a password: save it without one.')
        try:
            with zipfile.ZipFile(io.BytesIO(self._data)) as archive:
                for name in names:
                    with archive.open(name) as file:
                        part = file.read(most + 1)
                    most -= len(part)
                    tags += part.count(b'<')
                    attributes += part.count(b'="') + part.count(b"='")
                    if most < 0 or tags > _MOST_TAGS or attributes > _MOST_ATTRIBUTES:
                        raise UserError(
                            f'the text in the file has more than {_MOST_MEBIBYTES} MiB, '
                            f'{_MOST_TAGS:,} tags or {_MOST_ATTRIBUTES:,} attributes: divide the '
                            'file into several.'
                        )
                    found[name] = _root(part)
        except UserError:
            raise
        except _DAMAGE as error:
            raise _damaged(error) from None
        return found

    def replaced(self, roots: Mapping[str, Any]) -> bytes:
        """Return the file with other root elements of some parts. All other parts are the same.

        Raises:
          UserError: if it is damaged.
        """
        out = io.BytesIO()
        with zipfile.ZipFile(out, 'w') as archive:
            archive.comment = self._comment
            for info in map(copy.copy, self._infos):
                if info.filename in roots:
                    tree = roots[info.filename].getroottree()
                    part = etree.tostring(
                        tree, encoding='UTF-8', xml_declaration=True, standalone=True
                    )
                    archive.writestr(info, part)
                else:
                    _copy(info, self._compressed(info), archive, out)
        return out.getvalue()

    def _compressed(self, info: zipfile.ZipInfo) -> bytes:
        begin = info.header_offset
        header = self._data[begin : begin + 30]
        if len(header) < 30 or not header.startswith(b'PK\3\4'):
            raise _damaged('a part is missing')
        begin += 30 + sum(struct.unpack('<HH', header[26:]))
        return self._data[begin : begin + info.compress_size]


def _copy(
    info: zipfile.ZipInfo, compressed: bytes, archive: zipfile.ZipFile, out: io.BytesIO
) -> None:
    """Write a part as it is compressed, which takes no time and is safe for parts of any size."""
    # Because zipfile would compress it again, it writes the part as stored. Then its two headers,
    # of which it writes the second one at the end, get what is true.
    part = copy.copy(info)
    part.compress_type = zipfile.ZIP_STORED
    archive.writestr(part, compressed)
    for field in ('compress_type', 'CRC', 'file_size', 'external_attr'):
        setattr(part, field, getattr(info, field))
    header = out.getbuffer()[part.header_offset :]
    (flags,) = struct.unpack_from('<H', header, 6)  # how the name is encoded
    part.flag_bits = flags | info.flag_bits & ~8  # the size, which may have followed, is known
    struct.pack_into('<2H', header, 6, part.flag_bits, part.compress_type)
    struct.pack_into('<3L', header, 14, part.CRC, part.compress_size, part.file_size)


def _root(part: bytes) -> Any:
    other = _OTHER_ENCODING.match(part[:200].replace(b'\0', b'').lstrip(b'\xef\xbb\xbf\xfe\xff'))
    if other:
        raise _damaged(f'its encoding is {shown(other[1].decode())}, not UTF-8 or UTF-16')
    parser = etree.XMLParser(
        # Other encodings can hide tags from the count: '<' is '+ADw-' in UTF-7.
        encoding='UTF-16' if b'\0' in part[:4] else 'UTF-8',
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(part, parser)
    except etree.XMLSyntaxError as error:
        raise _damaged(error.msg or 'no XML') from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise _damaged('it has a DTD')
    return root


def _damaged(reason: BaseException | str) -> UserError:
    text = first_line(reason) if isinstance(reason, BaseException) else reason
    return UserError(
        f'the file is damaged ({text}): open it in a word processor and save it again.'
    )
