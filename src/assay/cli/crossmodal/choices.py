"""The options of `assay crossmodal`: what is read, what is searched, where prototypes come from."""

from __future__ import annotations

import click

from assay.cli import options
from assay.core.conventions import CHOICES
from assay.tasks.crossmodal.pairs import PROTOCOLS

__all__ = ["input_options", "prototype_options", "search_options"]

# The files with embeddings and labels, and which part of them is used.
input_options = options.add_options(
    click.option("--sensor-embeddings", metavar="FILE", help="Vectors of the sensors."),
    click.option("--sensor-key", metavar="KEY", help="Their array, where FILE is a .npz."),
    click.option("--text-embeddings", metavar="FILE", help="Vectors of the texts."),
    click.option("--text-key", metavar="KEY", help="Their array, where FILE is a .npz."),
    click.option(
        "--modality",
        "modalities",
        multiple=True,
        metavar="NAME=FILE",
        help="Vectors of any other modality. May be repeated.",
    ),
    click.option(
        "--modality-key",
        "modality_keys",
        multiple=True,
        metavar="NAME=KEY",
        help="Its array, where FILE is a .npz.",
    ),
    click.option(
        "--labels",
        multiple=True,
        metavar="[LEVEL=]FILE",
        help="A label for each row: .npy, .npz or .json. Several levels may be "
        "named: --labels l1=a.npy --labels l2=b.npy.",
    ),
    click.option(
        "--labels-key",
        "labels_keys",
        multiple=True,
        metavar="[LEVEL=]KEY",
        help="Their array, where FILE is a .npz.",
    ),
    click.option(
        "--modality-labels",
        multiple=True,
        metavar="NAME=[LEVEL=]FILE",
        help="Labels, or ids of pairs, of one modality, where modalities are not in step: test "
        "queries and a training gallery, captions and images.",
    ),
    click.option(
        "--modality-ids",
        multiple=True,
        metavar="NAME=FILE",
        help="Ids of its samples, one a line, unless the .npz has sample_ids.",
    ),
    click.option(
        "-r",
        "--qrels",
        multiple=True,
        metavar="A2B=FILE",
        help="Judged pairs of a direction, as a further level: several positives a query.",
    ),
    click.option(
        "--label-map",
        "label_maps",
        multiple=True,
        metavar="LEVEL=FILE",
        help="A further level made from the first by JSON {label: coarser}.",
    ),
    click.option(
        "--drop-labels",
        multiple=True,
        metavar="LABEL,...",
        help="Leave out samples (and prototypes) with these labels.",
    ),
)


# Where prototypes come from.
prototype_options = options.add_options(
    click.option("--use-prototypes", is_flag=True, help="Label descriptions are the queries."),
    click.option(
        "--zero-shot",
        is_flag=True,
        help="Classify samples by the nearest label description: accuracy, classes, confusion.",
    ),
    click.option(
        "--metadata",
        metavar="FILE",
        help="JSON with the fields label_to_text_STYLE of each dataset.",
    ),
    click.option("--dataset-name", metavar="NAME", help="Dataset in the metadata."),
    click.option(
        "--caption-style",
        default="sourish",
        show_default=True,
        metavar="STYLE",
        help="Caption style in the metadata.",
    ),
    click.option(
        "--encoder",
        metavar="SPEC",
        help="Text model: wordllama, st:MODEL, model2vec:MODEL or py:MODULE:FUNCTION.",
    ),
    click.option(
        "--checkpoint",
        metavar="FILE",
        help="Text tower of a trained model, .pt or .safetensors.",
    ),
    click.option(
        "--text-encoder-factory",
        "factory",
        metavar="MODULE:FACTORY",
        help="Function that makes a text encoder of the checkpoint.",
    ),
    click.option("--device", metavar="NAME", help="Device of the text model."),
    click.option(
        "--prototype-embeddings", metavar="FILE", help="Embeddings of ready-made prototypes."
    ),
    click.option("--prototype-key", metavar="KEY", help="Their array, where FILE is a .npz."),
    click.option(
        "--prototype-labels",
        metavar="FILE",
        help="Their labels, unless the .npz holds them as 'labels'.",
    ),
    click.option(
        "--truncate",
        is_flag=True,
        help="Divide by min(K, items of the label) in prototype directions.",
    ),
)


# What is searched, and how it is counted.
search_options = options.add_options(
    click.option(
        "--directions",
        multiple=True,
        metavar="A2B...",
        help="Such as text2sensor sensor2sensor prototype2text. "
        "[from each modality to each other, or from prototypes]",
    ),
    click.option(
        "--k-values",
        multiple=True,
        type=int,
        default=(10, 50, 100),
        show_default=True,
        metavar="K...",
        help="Cut-offs.",
    ),
    options.measures_option("A measure instead of P@k. May be repeated."),
    click.option(
        "--protocol",
        type=click.Choice(list(PROTOCOLS)),
        help="Image-text retrieval as papers report it: R@1/5/10 both ways, rSum, median and mean "
        "rank of the first positive.",
    ),
    click.option(
        "--folds",
        type=click.IntRange(min=1),
        metavar="N",
        help="With --protocol: the mean over N galleries. [coco-1k: 5]",
    ),
    click.option(
        "--normalize/--no-normalize", default=None, help="Cosine (default) or dot product."
    ),
    options.metric_option("Similarity."),
    click.option(
        "--exclude-paired",
        is_flag=True,
        help="Exclude the paired item of a sample in the other modality.",
    ),
    click.option(
        "--ties",
        type=click.Choice(CHOICES["ties"]),
        default="order",
        show_default=True,
        help="How tied items count.",
    ),
    options.zero_option,
    options.mismatch_option,
    click.option(
        "--depth",
        type=click.IntRange(min=1),
        metavar="N",
        help="Depth of the lists for MAP@R. [1000]",
    ),
    options.threads_option,
)
