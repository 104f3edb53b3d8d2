#!/usr/bin/env python3
"""Makes the sounds of this folder and what other programs decode them to. See README.md."""
import array
import os
import struct
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EVERY = 97  # of a reference every 97th sample is kept


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more).stdout


def out(name):
    return os.path.join(HERE, name)


def reference(name, *decode):
    """decode is how many channels there are, and a command that prints them as f32le."""
    channels, command = decode[0], decode[1:]
    data = array.array("f", run(*command))
    mono = [sum(data[i:i + channels]) / channels for i in range(0, len(data) - channels + 1, channels)]
    with open(out(name + ".ref"), "wb") as f:
        f.write(struct.pack("<I", len(mono)))
        f.write(array.array("f", mono[::EVERY]).tobytes())


def ffmpeg(name, channels):
    reference(name, channels, "ffmpeg", "-i", out(name), "-f", "f32le", "-")


def main():
    for name in os.listdir(HERE):
        if name.rsplit(".", 1)[-1] not in ("py", "md", "fuzz"):
            path = out(name)
            if os.path.isfile(path):
                os.remove(path)
    tmp = tempfile.mkdtemp()
    t = lambda name: os.path.join(tmp, name)
    run("espeak-ng", "-w", t("voice.wav"), "The quick brown fox jumps.")
    run("sox", "-D", t("voice.wav"), "-r", "48000", "-b", "16", t("mono.wav"), "trim", "0.1", "0.5")
    run("sox", "-D", "-r", "48000", "-n", "-b", "16", t("tone.wav"), "synth", "0.5", "sine", "440", "vol", "0.3")
    run("sox", "-D", "-M", t("mono.wav"), t("tone.wav"), t("stereo.wav"))

    # wav: the same tone in every form
    tone = ["sox", "-D", "-r", "8000", "-n"]
    synth = ["synth", "0.05", "sine", "440", "vol", "0.5"]
    for name, form in {
        "u8.wav": ["-b", "8", "-e", "unsigned"], "s16.wav": ["-b", "16"], "s24.wav": ["-b", "24"], "s32.wav": ["-b", "32"],
        "f32.wav": ["-b", "32", "-e", "float"], "f64.wav": ["-b", "64", "-e", "float"],
        "alaw.wav": ["-e", "a-law"], "mulaw.wav": ["-e", "u-law"], "six.wav": ["-b", "16", "-c", "6"],
    }.items():
        run(*tone, *form, out(name), *synth)
    with open(out("soxpipe.wav"), "wb") as f:
        f.write(run(*tone, "-b", "16", "-t", "wav", "-", *synth))
    with open(out("ffpipe.wav"), "wb") as f:
        f.write(run("ffmpeg", "-i", out("s16.wav"), "-metadata", "title=odd", "-f", "wav", "-"))
    run("ffmpeg", "-i", out("s16.wav"), "-rf64", "always", out("rf64.wav"))
    run("ffmpeg", "-i", out("s16.wav"), "-metadata", "title=odd", out("list.wav"))

    # flac
    run("sox", "-D", t("stereo.wav"), t("short.wav"), "trim", "0.1", "0.08")
    run("flac", "--no-padding", "-8", "-o", out("stereo.flac"), t("short.wav"))
    run("sox", "-D", t("short.wav"), "-r", "16000", "-b", "24", t("mono24.wav"), "remix", "1")
    run("flac", "--no-padding", "-5", "-b", "1000", "--lax", "-o", out("mono24.flac"), t("mono24.wav"))
    run("sox", "-D", t("short.wav"), "-r", "24000", "-b", "8", t("mono8.wav"), "remix", "1", "vol", "0.5")
    run("flac", "--no-padding", "-2", "-o", out("mono8.flac"), t("mono8.wav"))
    run("sox", "-D", t("short.wav"), "-r", "8000", "-b", "32", t("stereo32.wav"))
    run("flac", "--no-padding", "-8", "--lax", "-o", out("stereo32.flac"), t("stereo32.wav"))
    for name, channels in {"stereo.flac": 2, "mono24.flac": 1, "mono8.flac": 1}.items():
        ffmpeg(name, channels)
    reference("stereo32.flac", 2, "ffmpeg", "-i", t("stereo32.wav"), "-f", "f32le", "-")

    # mp3
    for rate in "44100", "22050", "24000", "16000", "11025":
        run("sox", "-D", t("mono.wav"), "-r", rate, t("m" + rate + ".wav"))
        run("sox", "-D", t("stereo.wav"), "-r", rate, t("s" + rate + ".wav"))
    run("lame", "-b", "64", "-m", "m", t("m44100.wav"), out("mono44.mp3"))
    run("lame", "-V", "8", "-m", "j", "--resample", "44.1", "--tt", "A title", t("s44100.wav"), out("joint44.mp3"))
    run("lame", "-b", "32", "-m", "m", t("m22050.wav"), out("mono22.mp3"))
    run("lame", "-b", "80", "-m", "s", "-p", t("s22050.wav"), out("stereo22.mp3"))
    # bursts, whose short blocks need more than one frame has
    run("sox", "-D", "-r", "22050", "-n", "-b", "16", t("burst.wav"), "synth", "0.04", "whitenoise", "vol", "0.5", "fade", "0", "0.04", "0.03",
        "pad", "0.05", "0.05", "repeat", "3", "channels", "2")
    run("lame", "-V", "0", "-m", "s", "--resample", "22.05", t("burst.wav"), out("burst22.mp3"))
    run("lame", "-b", "40", "-m", "m", "-t", t("m24000.wav"), out("mono24k.mp3"))
    run("lame", "-b", "16", "-m", "m", "--resample", "11.025", t("m11025.wav"), out("mpeg25.mp3"))
    for name, channels in {"mono44.mp3": 1, "joint44.mp3": 2, "mono22.mp3": 1, "stereo22.mp3": 2, "burst22.mp3": 2,
                           "mono24k.mp3": 1}.items():
        ffmpeg(name, channels)

    # vorbis and opus
    run("oggenc", "-Q", "-s", "1", "-q", "2", "-o", out("stereo.ogg"), t("s44100.wav"))
    run("oggenc", "-Q", "-s", "2", "-q", "1", "-o", out("mono16.ogg"), t("m16000.wav"))
    ffmpeg("stereo.ogg", 2)
    run("oggdec", "-Q", "-o", t("mono16.wav"), out("mono16.ogg"))  # this ffmpeg does not cut the last page
    reference("mono16.ogg", 1, "ffmpeg", "-i", t("mono16.wav"), "-f", "f32le", "-")
    run("opusenc", "--serial", "1", "--bitrate", "12", "--speech", t("m16000.wav"), out("silk.opus"))
    run("opusenc", "--serial", "2", "--bitrate", "28", "--speech", "--framesize", "20", t("mono.wav"), out("hybrid.opus"))
    run("opusenc", "--serial", "3", "--bitrate", "64", "--music", t("stereo.wav"), out("celt.opus"))
    run("opusenc", "--serial", "4", "--bitrate", "20", "--speech", "--framesize", "60", t("stereo.wav"), out("stereo60.opus"))
    for name, channels in {"silk.opus": 1, "hybrid.opus": 1, "celt.opus": 2, "stereo60.opus": 2}.items():
        wav = t(name + ".wav")
        run("opusdec", "--force-stereo" if channels == 2 else "--quiet", "--rate", "48000", "--float", out(name), wav)
        reference(name, channels, "ffmpeg", "-i", wav, "-f", "f32le", "-")

    # a tone, whose samples the test knows
    run("sox", "-D", "-r", "44100", "-n", "-b", "16", t("a.wav"), "synth", "0.25", "sine", "440", "vol", "0.5")
    run("lame", "-b", "64", "-m", "m", "--resample", "44.1", t("a.wav"), out("tone.mp3"))
    run("oggenc", "-Q", "-s", "5", "-q", "1", "-o", out("tone.ogg"), t("a.wav"))
    run("sox", "-D", "-r", "48000", "-n", "-b", "16", t("b.wav"), "synth", "0.25", "sine", "440", "vol", "0.5")
    run("opusenc", "--serial", "6", "--bitrate", "32", "--music", t("b.wav"), out("tone.opus"))

    # what is not read: the beginnings
    run("ffmpeg", "-i", t("mono.wav"), "-t", "0.02", "-c:a", "aac", out("aac.m4a"))
    run("ffmpeg", "-i", t("mono.wav"), "-t", "0.02", "-c:a", "aac", "-f", "adts", out("adts.aac"))
    run("ffmpeg", "-i", t("mono.wav"), "-t", "0.02", "-c:a", "libopus", out("opus.webm"))
    run(*tone, out("tone.aiff"), *synth)
    run("ffmpeg", "-i", t("mono.wav"), "-t", "0.05", "-c:a", "mp2", out("layer2.mp2"))
    run("ffmpeg", "-i", t("m16000.wav"), "-t", "0.05", "-c:a", "libspeex", out("speex.ogg"))
    run("ffmpeg", "-i", t("mono.wav"), "-t", "0.02", "-c:a", "wmav2", out("sound.wma"))
    for name in "aac.m4a", "adts.aac", "opus.webm", "tone.aiff", "layer2.mp2", "sound.wma":
        with open(out(name), "r+b") as f:
            f.truncate(400)


main()
