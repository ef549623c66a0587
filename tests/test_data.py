"""The digits: all of them, as they were, with their licence, always in the same three parts."""

import numpy as np
import torch

from course_utils import data

# optdigits.names of the UCI repository, "Class Distribution", testing set
CLASSES_IN_THE_ORIGINAL = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_there_are_1797_images_of_8_by_8_with_values_0_to_16():
    images, labels = data.raw_digits()
    assert images.shape == (1797, 8, 8)
    assert images.dtype == labels.dtype == np.uint8
    assert (images.min(), images.max()) == (0, 16)
    assert np.bincount(labels).tolist() == CLASSES_IN_THE_ORIGINAL
    assert images[0, :2].tolist() == [[0, 0, 5, 13, 9, 1, 0, 0], [0, 0, 13, 15, 10, 15, 5, 0]]


def test_the_parts_share_no_image_leave_none_out_and_keep_the_labels():
    digits, (images, labels) = data.digits(), data.raw_digits()
    parts = [digits.train, digits.validation, digits.test]
    assert [len(part.labels) for part in parts] == [1197, 240, 360]
    mine = (torch.cat([part.images for part in parts]) * 16).round().byte().numpy()
    pairs = zip(mine, torch.cat([part.labels for part in parts]).tolist(), strict=True)
    assert sorted((image.tobytes(), label) for image, label in pairs) == sorted(
        (image.tobytes(), label) for image, label in zip(images, labels.tolist(), strict=True)
    )


def test_images_are_float32_from_0_to_1_and_the_same_each_time():
    once, again = data.digits(), data.digits()
    assert once.train.images.dtype == torch.float32
    assert once.train.images.shape[1:] == (1, 8, 8)
    assert (once.train.images.min(), once.train.images.max()) == (0.0, 1.0)
    assert torch.equal(once.test.images, again.test.images)


def test_the_licence_of_the_digits_and_of_the_weights_lies_beside_them():
    text = (data.FOLDER / "LICENCE.txt").read_text(encoding="utf-8")
    assert all(words in text for words in ("CC BY 4.0", "Alpaydin", "MIT License", "Max Morrison"))
