#!/usr/bin/python3
"""Draws the pictures of testdata/pictures and writes goldens.json.gz: what Pillow makes of each, upright, on white, as RGB, and what its
bicubic makes of some; and filters.json.gz: what its bilinear and its Lanczos filter make of some. Debian 12's python3-pil (Pillow 9.4, libjpeg-turbo 2.1.5, libwebp 1.2.4) and libjpeg-turbo-progs were used:

    vision/testdata/make.py
"""
import base64, gzip, io, json, os, random, struct, subprocess, sys, zlib
from PIL import Image, ImageDraw, ImageOps

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(here, "pictures")
os.makedirs(folder, exist_ok=True)
goldens = {}


def drawn(w, h, seed=1):
    """Smooth colours, hard edges, thin lines, some noise."""
    r = random.Random(seed)
    im = Image.new("RGB", (w, h))
    px = im.load()
    for y in range(h):
        for x in range(w):
            px[x, y] = (255 * x // max(1, w - 1), 255 * y // max(1, h - 1), (x * 7 + y * 13) % 256)
    d = ImageDraw.Draw(im)
    d.rectangle((w // 8, h // 6, w // 2, h // 2), fill=(250, 10, 20))
    d.ellipse((w // 3, h // 3, w - 2, h - 2), fill=(10, 40, 240), outline=(255, 255, 0))
    d.line((0, h - 1, w - 1, 0), fill=(0, 255, 90))
    for _ in range(w * h // 9):
        px[r.randrange(w), r.randrange(h)] = (r.randrange(256), r.randrange(256), r.randrange(256))
    return im


def shade(w, h):
    a = Image.new("L", (w, h))
    a.putdata([(x * 255 // max(1, w - 1) + y * 5) % 256 for y in range(h) for x in range(w)])
    return a


def on_white(im):
    if im.mode in ("RGBA", "LA", "PA") or "transparency" in im.info:
        im = im.convert("RGBA")
        white = Image.new("RGB", im.size, (255, 255, 255))
        white.paste(im.convert("RGB"), (0, 0), im.getchannel("A"))
        return white
    return im.convert("RGB")


def golden(name, want=None):
    if want is None:
        want = Image.open(os.path.join(folder, name))
        want.load()
        want = on_white(ImageOps.exif_transpose(want))
    goldens[name] = {"w": want.width, "h": want.height, "rgb": base64.b64encode(want.tobytes()).decode()}


def put(name, data, want=None):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)
    golden(name, want)


def save(name, im, want=None, **how):
    b = io.BytesIO()
    im.save(b, {"jpg": "JPEG"}.get(name.rsplit(".", 1)[1], name.rsplit(".", 1)[1].upper()), **how)
    put(name, b.getvalue(), want)


def exif(value):
    e = Image.Exif()
    e[0x0112] = value
    return e


def png(w, h, depth, kind, rows, laced=0, extra=b""):
    """A png that Pillow does not write: rows are the scan lines, without their filter byte."""
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    body = zlib.compress(b"".join(b"\0" + r for r in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, kind, 0, 0, laced)) + extra
            + chunk(b"IDAT", body) + chunk(b"IEND", b""))


base = drawn(45, 31)
rgba = base.copy()
rgba.putalpha(shade(45, 31))
grey = base.convert("L")

# png
save("rgb.png", base)
save("rgba.png", rgba)
save("grey.png", grey)
save("greyalpha.png", Image.merge("LA", (grey, shade(45, 31))))
save("palette.png", base.quantize(200))
for colours, bits in ((2, 1), (4, 2), (16, 4)):
    save("palette%d.png" % bits, base.quantize(colours), bits=bits)
save("bilevel.png", base.convert("1"))
save("palettealpha.png", base.quantize(20), transparency=bytes(range(0, 240, 12)))
save("rgbkey.png", base, transparency=(250, 10, 20))
save("greykey.png", grey, transparency=grey.getpixel((10, 8)))
wide = Image.new("I", base.size)
values = [(x * 1400 + y * 613) % 65536 for y in range(31) for x in range(45)]
wide.putdata(values)
high = Image.new("L", base.size)
high.putdata([v >> 8 for v in values])
save("grey16.png", wide, want=high.convert("RGB"))
r = random.Random(7)
put("rgb16.png", png(45, 31, 16, 2, [r.randbytes(45 * 6) for _ in range(31)]))
put("rgba16.png", png(45, 31, 16, 6, [r.randbytes(45 * 8) for _ in range(31)]))
laced = []
for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
    for y in range(y0, 31, dy):
        laced.append(b"".join(bytes(base.getpixel((x, y))) for x in range(x0, 45, dx)))
put("laced.png", png(45, 31, 8, 2, laced, laced=1))
save("turned5.png", base, exif=exif(5))
save("strip.png", drawn(1, 300))

# jpeg
for i, name in enumerate(("444", "422", "420")):
    save(name + ".jpg", base, quality=92, subsampling=i)
    save(name + "low.jpg", base, quality=12, subsampling=i)
for w, h in ((1, 1), (2, 2), (3, 3), (4, 5), (5, 4), (6, 17), (16, 16), (33, 9)):
    save("420-%dx%d.jpg" % (w, h), drawn(w, h, w), quality=90, subsampling=2)
for w in (1, 3, 4, 5, 6):
    save("422-%dx7.jpg" % w, drawn(w, 7, w), quality=90, subsampling=1)
save("progressive.jpg", base, quality=85, subsampling=2, progressive=True)
save("progressive444.jpg", base, quality=85, subsampling=0, progressive=True)
save("grey.jpg", grey, quality=90)
save("red.jpg", Image.new("RGB", (40, 40), (255, 0, 0)), quality=95)
save("cmyk.jpg", base.convert("CMYK"), quality=95)
dark = Image.merge("CMYK", base.split() + (shade(45, 31),))
save("cmykdark.jpg", dark, quality=95)
b = io.BytesIO()
dark.save(b, "JPEG", quality=95)
ycck = bytearray(b.getvalue())
ycck[ycck.index(b"Adobe") + 11] = 2  # the same samples, called YCCK
put("ycck.jpg", bytes(ycck))
at = ycck.index(b"\xff\xee")
put("cmykplain.jpg", bytes(ycck[:at] + ycck[at + 16:]))  # without Adobe's segment
ppm = io.BytesIO()
base.save(ppm, "PPM")
for name, how in {"440": ["-sample", "1x2"], "411": ["-sample", "4x1"], "410": ["-sample", "4x2"], "rgb": ["-rgb"], "restart": ["-restart", "1"]}.items():
    put(name + ".jpg", subprocess.run(["cjpeg", "-quality", "90"] + how, input=ppm.getvalue(), stdout=subprocess.PIPE, check=True).stdout)
for i in range(1, 9):
    save("turned%d.jpg" % i, base, quality=90, exif=exif(i))

# gif
few = base.quantize(60)
save("plain.gif", few, interlace=0)
save("laced.gif", few, interlace=1)
save("clear.gif", few, transparency=few.getpixel((10, 8)))
save("moving.gif", few, save_all=True, append_images=[drawn(45, 31, 2).quantize(60), drawn(45, 31, 3).quantize(60)], duration=90)
b = io.BytesIO()
few.crop((0, 0, 20, 11)).save(b, "GIF")
small = bytearray(b.getvalue())
small[6:10] = struct.pack("<HH", 45, 31)  # a canvas that the frame leaves open
at = small.index(b"\x2c\0\0\0\0\x14\0\x0b\0")
small[at + 1:at + 5] = struct.pack("<HH", 12, 9)
open_ = Image.new("RGB", (45, 31), (255, 255, 255))
open_.paste(Image.open(io.BytesIO(b.getvalue())).convert("RGB"), (12, 9))
put("open.gif", bytes(small), want=open_)

# webp
save("lossy.webp", base, quality=90)
save("lossylow.webp", base, quality=5)
save("lossyeven.webp", drawn(48, 32), quality=80)
save("lossyalpha.webp", rgba, quality=80)
save("lossyalphalow.webp", rgba, quality=60, alpha_quality=20)
save("lossless.webp", base, lossless=True)
save("losslessalpha.webp", rgba, lossless=True)
save("losslesspalette.webp", base.quantize(9).convert("RGB"), lossless=True)
for w, h in ((1, 1), (2, 3), (3, 2), (17, 16)):
    save("lossy-%dx%d.webp" % (w, h), drawn(w, h, h), quality=90)
save("turned6.webp", base, quality=90, exif=exif(6).tobytes())

# bmp
save("rgb.bmp", base)
save("grey.bmp", grey)
save("palette.bmp", base.quantize(90))
save("bilevel.bmp", base.convert("1"))

sizes = []
for w, h, to in ((45, 31, (28, 28)), (45, 31, (64, 64)), (45, 31, (45, 16)), (45, 31, (20, 31)), (1, 300, (14, 14)), (300, 1, (28, 14)), (7, 5, (1, 1)),
                 (2, 2, (31, 29)), (101, 67, (32, 48)), (200, 150, (28, 56)), (64, 64, (63, 65)), (333, 3, (16, 16))):
    im = Image.new("RGB", (w, h))
    im.putdata([tuple(r.choice((0, 255, r.randrange(256))) for _ in range(3)) for _ in range(w * h)])
    sizes.append({"w": w, "h": h, "rgb": base64.b64encode(im.tobytes()).decode(), "tow": to[0], "toh": to[1],
                  "want": base64.b64encode(im.resize(to, Image.BICUBIC).tobytes()).decode()})

with open(os.path.join(here, "goldens.json.gz"), "wb") as f:
    f.write(gzip.compress(json.dumps({"pictures": goldens, "sizes": sizes}).encode(), 9, mtime=0))

others, r = [], random.Random(11)
for name, by in (("bilinear", Image.BILINEAR), ("lanczos", Image.LANCZOS)):
    for w, h, to in ((25, 17, (14, 14)), (17, 25, (33, 32)), (25, 17, (25, 9)), (1, 90, (7, 7)), (7, 5, (1, 1)), (2, 2, (15, 14)), (41, 27, (17, 24)),
                     (60, 45, (14, 14)), (24, 24, (23, 25)), (333, 3, (8, 8)), (32, 32, (16, 16))):
        im = Image.new("RGB", (w, h))
        im.putdata([tuple(r.choice((0, 255, r.randrange(256))) for _ in range(3)) for _ in range(w * h)])
        others.append({"by": name, "w": w, "h": h, "rgb": base64.b64encode(im.tobytes()).decode(), "tow": to[0], "toh": to[1],
                       "want": base64.b64encode(im.resize(to, by).tobytes()).decode()})
with open(os.path.join(here, "filters.json.gz"), "wb") as f:
    f.write(gzip.compress(json.dumps(others).encode(), 9, mtime=0))
print(len(goldens), "pictures", file=sys.stderr)
