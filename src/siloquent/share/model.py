"""A learned model: one linear score over declared bins and numbers, whatever data it was learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import NotAllowed, ReleaseError, RequestError
from siloquent.fixes import UseOption, build_fix, run
from siloquent.foreign import DocumentTooLarge, read_bounded
from siloquent.foreign.arrays import MAX_BYTES
from siloquent.releases.arrays import pack, unpack
from siloquent.share.linear_score import LinearScore, convert_label_values, decide_classes
from siloquent.share.spec import Agreement, parse_agreement
from siloquent.share.spec.encoding import Encoding, Integers, build_encoding, list_bin_names

FORMAT = 1
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A linear model; ``kind`` is logistic, svm or linear, ``silos`` the number of other silos whose rows it includes.

    ``holds_own_rows``: it was fitted on its owner's exact rows, so it is not a release and must not leave the owner.
    """

    agreement: Agreement
    scores: LinearScore
    kind: str
    silos: int
    holds_own_rows: bool
    notes: tuple[str, ...] = ()

    @property
    def encoding(self) -> Encoding:
        """The encoding of rows."""
        return build_encoding(self.agreement)

    def predict(self, rows: Mapping[str, Sequence[Any]]) -> list[Any]:
        """Predict each row's label from columns by attribute name; a value OUTSIDE is read as its bin's neighbour.

        Raises:
            UnknownName: A feature has no column. RequestError: A row has an undeclared value.
        """
        encoding = self.encoding
        places = encoding.compute_indices(rows)
        bad = np.flatnonzero((places < 0).any(axis=1))
        if bad.size:
            name = encoding.names[int(np.argmax(places[bad[0]] < 0))]
            raise RequestError(
                f"Row {bad[0] + 1} has no declared value of {name!r}.", fix="leave it out, or declare outside = 'clamp'"
            )
        return self.predict_places(places)

    def predict_places(self, places: Integers) -> list[Any]:
        """Predict the label of each row of indices (rows, features), all of them inside."""
        encoding = self.encoding
        found = self.scores.compute_scores(encoding, places)
        if encoding.is_regression:
            return list(convert_label_values(encoding, found[:, 0]).tolist())
        labels = encoding.labels
        return [labels[i] for i in decide_classes(found)]

    def list_strongest(self, count: int) -> list[tuple[str, str, float]]:
        """Return the strongest bins for or against the last class, or a high value: feature, bin, weight.

        A bin's weight is relative to the mean of its feature's bins. Empty where there are more than two classes.
        """
        encoding, weights = self.encoding, self.scores.weights
        if weights.shape[1] > 1:
            return []
        own = weights[: encoding.columns, 0]
        means = np.bincount(encoding.blocks, weights=own) / np.array(encoding.widths)
        against = own - means[encoding.blocks]
        names = [(a.name, text) for a in encoding.features for text in list_bin_names(a)]
        order = np.argsort(-np.abs(against), kind="stable")[:count]
        return [(*names[i], float(against[i])) for i in order]

    def save(self, path: Path) -> None:
        """Write the model as ``.npz``; ``load_model`` reads it.

        Raises:
            RequestError: The file exists. ReleaseError: Writing fails.
        """
        words = {
            "format": FORMAT,
            "agreement": self.agreement.to_json(),
            "link": self.scores.link,
            "kind": self.kind,
            "silos": self.silos,
            "holds_own_rows": self.holds_own_rows,
            "notes": list(self.notes),
        }
        arrays = {"weights": self.scores.weights.ravel(), "constant": self.scores.constant}
        try:
            with path.open("xb") as file:
                file.write(pack(arrays, words))
        except FileExistsError:
            raise RequestError(f"{path} already exists.", fix="choose another file, or remove it") from None
        except OSError as failed:
            raise ReleaseError(f"Cannot write {path}: {failed.strerror}.", fix="choose another file") from None

    def require_publishable(self) -> Model:
        """Return the model, if it may be published.

        Raises:
            NotAllowed: It was fitted on its owner's exact rows.
        """
        if self.holds_own_rows:
            raise NotAllowed(
                "This model was fitted on your own exact rows: sharing it would reveal them.",
                fix=build_fix(
                    "learn with ", UseOption("shared_only", True, "use_own=False"), ", which uses only releases"
                ),
            )
        return self


def load_model(path: Path) -> Model:
    """Load the model in a file; nothing in it is executed.

    Raises:
        ReleaseError: It is not a model, or was truncated or changed.
    """
    try:
        data = read_bounded(path, MAX_BYTES)
    except DocumentTooLarge:
        raise ReleaseError(
            f"{path} is too large to be a model.", fix=run("share learn", "TABLE", "RELEASE", "-o", "FILE")
        ) from None
    except OSError as failed:
        raise ReleaseError(
            f"Cannot read {path}: {failed.strerror}.", fix=run("share learn", "TABLE", "RELEASE", "-o", "FILE")
        ) from None
    arrays, words = unpack(data, ("weights", "constant"))
    try:
        if words["format"] != FORMAT:
            raise ReleaseError("The model has a newer format.", fix="pip install --upgrade siloquent")
        agreement, constant = parse_agreement(words["agreement"]), arrays["constant"]
        encoding = build_encoding(agreement)
        weights = arrays["weights"].reshape(encoding.columns + len(encoding.numeric), len(constant))
        if words["link"] not in ("logit", "sign", "value") or not np.isfinite(weights).all():
            raise ReleaseError("The model's numbers are none.")
        scores = LinearScore(weights, constant, words["link"])
        return Model(
            agreement, scores, words["kind"], words["silos"], bool(words["holds_own_rows"]), tuple(words["notes"])
        )
    except (KeyError, ValueError, TypeError):
        raise ReleaseError(f"{path} is not a model, or it was truncated or altered.") from None
