#!/usr/bin/env python3
"""Writes pictures.txt (small files in many forms, and what PIL makes of them) and resized.txt (PIL's bilinear resize).

    /usr/bin/python3 make_pictures.py [FOLDER_OF_UC_MERCED_ORIGINALS]     (made with PIL 9.4)

pictures.txt: a line "NAME WIDTH HEIGHT FILE_IN_HEX RGB_IN_HEX". RGB is Image.open(...).convert("RGB"), except for
16-bit grey, of which PIL would clip all above 255: there the high byte is expected.
resized.txt: a line "NAME WIDTH HEIGHT CRC32" of the RGB bytes after Image.resize((WIDTH, HEIGHT), BILINEAR). NAME is
"pattern-WxH" for the picture that pattern() computes, or the path of an original, which stays where it is.
"""

import io
import pathlib
import struct
import sys
import zlib

from PIL import Image

HERE = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 11, 7


def pattern(width, height):
    """The same bytes as pattern() in image_test.cc."""
    values = bytearray()
    for y in range(height):
        for x in range(width):
            for c in range(3):
                values.append((x * x * 7 + y * 31 * (c + 1) + x * y * 3 + c * 85) % 256)
    return Image.frombytes("RGB", (width, height), bytes(values))


def saved(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def png(width, height, depth, colour, rows, extra=b""):
    """A PNG by hand: kinds that PIL does not write."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def wide_rows(channels):
    """Rows of 16-bit samples whose low byte would round the high byte up."""
    rgb = pattern(WIDTH, HEIGHT).tobytes()
    values = [rgb[3 * i + c % 3] for i in range(WIDTH * HEIGHT) for c in range(channels)]
    step = WIDTH * channels
    return [b"".join(bytes((v, 255 - v)) for v in values[y * step:(y + 1) * step]) for y in range(HEIGHT)]


def pictures():
    rgb = pattern(WIDTH, HEIGHT)
    grey = rgb.convert("L")
    palette = rgb.quantize(13)
    alpha = rgb.copy()
    alpha.putalpha(grey)
    grey_alpha = grey.copy()
    grey_alpha.putalpha(grey.point(lambda v: 255 - v))
    wide_grey = Image.frombytes("I;16", grey.size, b"".join(bytes((255 - v, v)) for v in grey.tobytes()))
    yield "png-rgb", saved(rgb, "PNG")
    yield "png-grey", saved(grey, "PNG")
    yield "png-1-bit", saved(rgb.convert("1"), "PNG")
    yield "png-palette", saved(palette, "PNG")
    yield "png-palette-2-bit", saved(rgb.quantize(4), "PNG", bits=2)
    yield "png-palette-transparent", saved(palette, "PNG", transparency=3)
    yield "png-rgba", saved(alpha, "PNG")
    yield "png-grey-alpha", saved(grey_alpha, "PNG")
    yield "png-grey-2-bit", png(8, 2, 2, 0, [b"\x1b\xe4", b"\x00\xff"])
    yield "png-grey-4-bit", png(5, 2, 4, 0, [b"\x01\x23\x40", b"\xfe\xdc\xb0"])
    yield "png-grey-transparent", png(4, 1, 8, 0, [b"\x00\x40\x80\xff"], struct.pack(">I", 2) + b"tRNS\0\x40" +
                                      struct.pack(">I", zlib.crc32(b"tRNS\0\x40")))
    yield "png-rgb-16-bit", png(WIDTH, HEIGHT, 16, 2, wide_rows(3))
    yield "png-rgba-16-bit", png(WIDTH, HEIGHT, 16, 6, wide_rows(4))
    yield "png-grey-16-bit", saved(wide_grey, "PNG")
    yield "png-profile", saved(rgb, "PNG", icc_profile=bytes(3000))
    yield "jpeg-rgb", saved(rgb, "JPEG", quality=80)
    yield "jpeg-rgb-444", saved(rgb, "JPEG", quality=95, subsampling=0)
    yield "jpeg-progressive", saved(rgb, "JPEG", progressive=True)
    yield "jpeg-grey", saved(grey, "JPEG")
    yield "jpeg-cmyk", saved(rgb.convert("CMYK"), "JPEG")
    yield "tiff-rgb", saved(rgb, "TIFF")
    for name in ("lzw", "adobe_deflate", "packbits", "jpeg"):
        yield f"tiff-{name}", saved(rgb, "TIFF", compression=f"tiff_{name}")
    yield "tiff-grey", saved(grey, "TIFF")
    yield "tiff-1-bit", saved(rgb.convert("1"), "TIFF", compression="group4")
    yield "tiff-palette", saved(palette, "TIFF")
    yield "tiff-rgba", saved(alpha, "TIFF")
    yield "tiff-cmyk", saved(rgb.convert("CMYK"), "TIFF", compression="tiff_lzw")
    yield "tiff-grey-16-bit", saved(wide_grey, "TIFF")
    for orientation in range(2, 9):
        yield f"tiff-orientation-{orientation}", saved(rgb, "TIFF", tiffinfo={274: orientation})


def expected(name, content):
    image = Image.open(io.BytesIO(content))
    if name.endswith("grey-16-bit"):
        values = bytes(v >> 8 for v in image.getdata())
        return Image.frombytes("L", image.size, values).convert("RGB")
    return image.convert("RGB")


def write_pictures():
    lines = []
    for name, content in pictures():
        image = expected(name, content)
        lines.append(f"{name} {image.width} {image.height} {content.hex()} {image.tobytes().hex()}\n")
    (HERE / "pictures.txt").write_text("".join(lines))


def resized_line(name, image, width, height):
    small = image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    return f"{name} {width} {height} {zlib.crc32(small.tobytes())}\n"


def write_resized(originals):
    lines = []
    for source in ((256, 256), (242, 257), (64, 64), (17, 5), (1, 1), (300, 1), (1000, 333)):
        for target in ((64, 64), (32, 48), (1, 1), (7, 130), (64, source[1])):
            lines.append(resized_line("pattern-%dx%d" % source, pattern(*source), *target))
    for path in sorted(originals.glob("*/*.tif")) if originals else []:
        lines.append(resized_line(path.relative_to(originals).as_posix(), Image.open(path), 64, 64))
    (HERE / "resized.txt").write_text("".join(lines))


if __name__ == "__main__":
    write_pictures()
    write_resized(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None)
