"""The learner's loop: read the journal, learn batch by batch, write checkpoints, hand parameters over.

Nothing that happens here can fail a prediction. If the learner dies, the server goes on with the parameters it has, and
a new learner starts from the last checkpoint and the journal.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.gradients import Gradients, OneAtATime
from alphaedge.core.hearing import trust_in
from alphaedge.core.links import Ear
from alphaedge.core.model import Model
from alphaedge.core.privacy.accountant import epsilon_after
from alphaedge.core.privacy.noise import Noise
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.inputs.lookup import NO_KEY, compact_keys
from alphaedge.edge.learning.checkpoints import Checkpoints
from alphaedge.edge.learning.cold_start import AdoptionLog, Hearing, NewIds, find_held, weighted_rows
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.handover import hand_over
from alphaedge.edge.learning.journal_batches import journal_batches
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.noise_key import no_noise
from alphaedge.edge.learning.private_release import Secrets
from alphaedge.edge.learning.promise import Promise
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.learning.rollback import MAX_UNDONE, last_good, roll_back
from alphaedge.edge.log import info, warn
from alphaedge.edge.model import initial_model, model_schema
from alphaedge.edge.store.journal import NOT_PREDICTED, Journal
from alphaedge.edge.store.learned_mark import LearnedMark, write_learned_mark
from alphaedge.edge.store.parameters import ParameterWriter
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import LearnerStatus, read_learner_status, read_server_status, write_status
from alphaedge.edge.store.vitals import make_vitals
from alphaedge.errors import RolledBack, RuleError
from alphaedge.monitoring.vitals import EdgeView, Vitals, with_absent
from alphaedge.scoring import SCORES

POLL_INTERVAL_SECONDS: Final = 0.02  # of the journal, while there is nothing to learn
MAX_PREDICTIONS: Final = 2000  # read at once, in search of new ids
STATUS_INTERVAL_SECONDS: Final = 1.0
RECENT_BATCHES: Final = 20  # whose scores make the recent score


def make_learner(config: EdgeConfig, gradients: Gradients, noise: Callable[[int, bytes], Noise] = no_noise) -> Learner:
    """Make the learner of an edge, which has learned nothing yet. noise: that of its private steps, if it takes any."""
    model, sizes = gradients.model, {f.name: f.size for f in config.model.fields}
    return Learner(
        gradients,
        config.method.make(),
        config.model.online,
        name=config.edge,
        seed=config.seed,
        capacities=[sum(sizes[model.fields[f]] for f in table.fields) for table in model.tables],
        secrets=Secrets(config.model.batch_size, noise),
    )


@final
class LearningLoop:
    """One edge's learning, from its journal to its parameters. folder: of its configuration."""

    def __init__(
        self,
        config: EdgeConfig,
        folder: Path,
        gradients: Callable[[Model], Gradients] = OneAtATime,
        clock: Callable[[], float] = time.time,
    ) -> None:
        data, model = folder / config.data, initial_model(config)
        self.config, self.size = config, config.model.batch_size
        self.schema = model_schema(config, model)
        self._promise = Promise(data, config.method.make().privacy, self.schema, config.model)
        self.learner = make_learner(config, gradients(model), self._promise.noise)
        self._features = Features(config.model.fields, b"")  # the journal holds keys, not ids
        self._journal = Journal(data / "journal.db", layout=self._features.layout, readonly=True)
        self._checkpoints = Checkpoints(data / "checkpoints")
        self._status_file = data / "status.json"
        self._clock = clock
        self._score = SCORES["AUC" if config.model.task == "classify" else "1-SMAPE"]
        self._writer = ParameterWriter(data / "parameters", self.schema)
        self.progress, wrong = self._checkpoints.restore(self.learner, self.schema)
        self._promise.take_up(self.learner)
        self._saved = self.progress.feedback
        for reason in wrong:
            warn("checkpoint_refused", reason=reason)
        before = read_learner_status(self._status_file)
        self.status = LearnerStatus(
            edge=config.edge, region=config.region, place=config.place, schema=self.schema, started=clock()
        )
        self.status.announcement_version = before.announcement_version if before else 0
        self._recent: deque[float] = deque(maxlen=RECENT_BATCHES)
        self._recent_gain: deque[float] = deque(maxlen=RECENT_BATCHES)
        self._adoptions = AdoptionLog(data / "adopted.db", self.schema)
        self._last_seen = self._journal.last_prediction()
        self._new_ids = NewIds()
        self._replay_adoptions()
        while self._step():  # catch up with the journal before the server predicts from this state
            pass
        self.report({}, clock())
        self._hand_over()
        others = sorted(self._checkpoints.others(self.schema))
        info("learner_started", schema=self.schema, feedback=self.progress.feedback, other_schemas=others)

    @property
    def due(self) -> bool:
        """Whether a round is due; nothing more is learned until it is finished."""
        return self.learner.due

    @property
    def past_pull(self) -> bool:
        """Whether the models for the next round are to be pulled, or have been."""
        return self.learner.past_pull

    @property
    def behind(self) -> bool:
        """Whether there is about a batch of feedback that nothing was learned from yet."""
        return self._journal.last_feedback() - self.progress.feedback >= self.size

    def step(self) -> bool:
        """Learn the next batch and hand the parameters over; False if its feedback is not complete yet."""
        if not self._step():
            return False
        self._hand_over()
        return True

    def _hand_over(self) -> None:
        began = time.perf_counter()
        hand_over(self.learner, self._writer)
        self.status.hand_overs += 1
        self.status.hand_over_seconds += time.perf_counter() - began

    def _step(self) -> bool:
        if self.due:
            return False
        learner, after = self.learner, self.progress.feedback
        batch = next(journal_batches(self._journal, self._features, learner.model, self.size, after), None)
        if batch is None:
            return False
        undone = learner.batches_undone
        self._learn(batch.examples)
        self._note_scores(batch.outputs, batch.alone, batch.examples.labels)
        self.progress.feedback = batch.examples.last
        self._note_undone(undone)
        self._replay_adoptions()
        return True

    def _note_scores(self, outputs: Sequence[float], alone: Sequence[float | None], labels: Tensor) -> None:
        """Score what was predicted, and what the home model alone would have predicted at the same moments."""
        if NOT_PREDICTED in outputs:
            return
        score = self._score_of(outputs, labels)
        if math.isnan(score):  # a batch with a single class has no score
            return
        self.progress.scores += 1
        self.progress.total += score
        self._recent.append(score)
        known = [output for output in alone if output is not None]
        score_alone = self._score_of(known, labels) if len(known) == len(alone) else math.nan
        if not math.isnan(score_alone):
            self.progress.compared += 1
            self.progress.gain += score - score_alone
            self._recent_gain.append(score - score_alone)

    def _score_of(self, outputs: Sequence[float], labels: Tensor) -> float:
        predicted = torch.tensor([outputs], dtype=torch.float64)
        return float(self._score(predicted, labels.double().unsqueeze(0)))

    def _learn(self, examples: Examples) -> None:
        """Learn from a batch, unless that would break the model."""
        self.progress.batches += self.learner.learn(examples)
        if self.learner.gave_up_start:
            self.learner.gave_up_start = False
            warn("start_given_up", reason="on the first batch the peers' model was far worse than none")

    def _note_undone(self, before: int) -> None:
        """Report batches that were undone; after several in a row, roll back. before: those undone until now."""
        learner = self.learner
        if learner.batches_undone == before:
            return
        self.progress.undone += learner.batches_undone - before
        reason = "the model would no longer be finite"
        warn("batch_undone", batches=learner.batches_undone - before, up_to=self.progress.feedback, reason=reason)
        if len(learner.undone) >= MAX_UNDONE:
            self._roll_back()

    def _roll_back(self) -> None:
        """Give way to a learner that starts from an earlier state, if there is one that can learn what was undone."""
        learner, progress = self.learner, self.progress
        found = last_good(learner, self._checkpoints, self.schema, progress)
        learner.undone = []
        if found is None:
            warn("rollback_refused", reason="these batches break earlier states, too, or other batches do no harm")
            return
        name, good = found
        roll_back(good, learner, self._checkpoints, self.schema, progress)
        write_learned_mark(self._status_file.parent, LearnedMark(progress.feedback, self._saved))
        raise RolledBack(f"{MAX_UNDONE} batches in a row were undone; the learner rolls back to {name}")

    def start_round(self) -> None:
        """Begin a round: publish what was learned."""
        self.learner.start_round()
        self._promise.before_publication(self.learner)
        if self.learner.reset:
            self.status.resets += 1
            warn("mixed_model_reset", aggregation=self.learner.aggregations, reason="of no use beside the home model")

    @property
    def untaught(self) -> bool:
        """Whether the edge has learned nothing yet, not even from a peer."""
        return not self.learner.revealed and not self._checkpoints.any(self.schema)

    def bootstrap(self, pulls: Sequence[PulledModel]) -> None:
        """Start from the models of peers."""
        self.learner.bootstrap(pulls)
        self._checkpoints.save(self.learner, self.schema, self.progress)
        self._hand_over()

    def new_ids(self, now: float) -> list[Tensor]:
        """Keys per id table to ask peers for: of recent predictions, and without a row."""
        asked = self._journal.predictions(self._last_seen, MAX_PREDICTIONS)
        if not asked:
            return []
        self._last_seen = asked[-1][0]
        model = self.learner.model
        inputs = self._features.to_tensors(self._features.from_bytes([features for _, features in asked]), model.fields)
        _, keys = compact_keys(model, inputs)
        unknown = [
            [k for k in wanted.flatten().tolist() if k != NO_KEY and k not in table.numbering and not table.local]
            for table, wanted in zip(self.learner.tables, keys, strict=True)
        ]
        picked = self._new_ids.pick(unknown, now)
        if self.learner.private is not None:  # no peer is asked about an id; what they have told is held already
            self.adopt(find_held(self.learner.held, picked))
            return []
        return picked if any(map(len, picked)) else []

    def adopt(self, pulls: Mapping[str, PulledModel]) -> None:
        """Start the rows of new ids from what peers know about them."""
        learner, trial = self.learner, self.learner.method.trial
        trust = {peer: trust for peer in pulls if (trust := _trust_in_rows(learner, peer)) > 0}
        weights = {peer: learner.links.known[peer].weight if learner.aggregations else 1.0 for peer in trust}
        told = learner.private is None
        usual = [table.usual_row(published=told) if trial is not None else None for table in learner.tables]
        links = learner.links
        believed = {peer: trust_in(links.ears.get(peer, Ear())) if peer in links.known else 0.0 for peer in trust}
        hearing = [Hearing(table.width, table.events, believed) for table in learner.tables]
        chosen = {peer: pulls[peer] for peer in trust}
        adopted = weighted_rows(weights, chosen, trust=trust, usual=usual, hearing=hearing)
        for one in adopted:
            self._adoptions.append((self.learner.aggregations, self.progress.feedback), one)
            self.status.adopted_rows += self.learner.adopt(*one)
        if adopted:
            self._hand_over()

    def _replay_adoptions(self) -> None:
        """Adopt again what was adopted at this moment before a restart."""
        for one in self._adoptions.at((self.learner.aggregations, self.progress.feedback)):
            self.status.adopted_rows += self.learner.adopt(*one)

    def drop(self, peers: Sequence[str]) -> None:
        """Drop neighbours that the policy forbids."""
        for peer in peers:
            self.learner.drop(peer)

    def finish_round(
        self,
        pulls: Mapping[str, PulledModel],
        candidates: Sequence[str],
        topology: Mapping[str, Mapping[str, float]],
        absent: Collection[str] = (),
        tallies: Mapping[str, PulledModel] = {},
    ) -> dict[str, float]:
        """Mix in the models that were pulled, choose neighbours, checkpoint and hand over; the shares of the mix.

        absent: neighbours that have published something that did not come. tallies: those of others that were pulled.
        """
        learner = self.learner
        pulls = {peer: pull for peer, pull in pulls.items() if peer in learner.links.neighbours}  # some may be dropped
        for peer, pull in pulls.items():
            learner.hold(peer, pull)
        tallies = {peer: pull for peer, pull in tallies.items() if peer in learner.links.others}
        for peer, pull in tallies.items():
            learner.heard.take(peer, pull)
        excluded = {peer: link.excluded_until for peer, link in learner.links.known.items()}
        try:
            shares = learner.mix(list(pulls), list(tallies))
        except RuleError as error:  # a rule of the operator's own: the edge goes on with its own model
            warn("aggregation_rule_failed", reason=error, neighbours=list(pulls))
            shares = {self.config.edge: 1.0}
        undone = learner.batches_undone
        refused = learner.finish_round(candidates, topology, () if learner.reset else absent)
        self._note_undone(undone)
        if refused is not None:
            warn("selection_rule_failed", reason=refused)
        for peer, link in learner.links.known.items():
            if link.excluded_until > excluded.get(peer, 0):
                rounds = link.excluded_until - learner.aggregations
                warn("peer_excluded", peer=peer, reason=self.exclusion(peer), rounds=rounds)
        self._checkpoints.save(learner, self.schema, self.progress)
        self._promise.after_checkpoint(learner)
        self.status.own_share = shares.get(self.config.edge, 1.0)
        self._hand_over()
        write_learned_mark(self._status_file.parent, LearnedMark(self.progress.feedback, self._saved))
        self._saved = self.progress.feedback
        self._adoptions.forget(learner.aggregations)
        return shares

    def exclusion(self, peer: str) -> str:
        """Why a peer takes no part for some rounds; empty if it does."""
        link, trial = self.learner.links.known.get(peer), self.learner.method.trial
        if link is None or trial is None or link.counts(self.learner.aggregations):
            return ""
        if not link.is_excluded(self.learner.aggregations):
            return "on trial again" if peer in self.learner.links.neighbours else ""
        if link.tried and link.excess >= trial.tolerance:
            return f"worse than alone by {min(link.excess, 9.99):.0%}"
        return f"no model for {trial.patience} rounds"

    def step_alone(self) -> bool:
        """Do the next thing of an edge without peers; False if there is nothing to do."""
        if not self.due:
            return self.step()
        self.start_round()
        self.finish_round({}, [self.config.edge], {})
        return True

    def status_is_old(self, now: float) -> bool:
        """Whether it is time to write the status again."""
        return not 0 <= now - self.status.written < STATUS_INTERVAL_SECONDS

    def report(self, peers: dict[str, PeerStatus], now: float, others: Mapping[str, EdgeView] = {}) -> None:
        """Write the status. others: the rest of the fleet, as this edge sees it."""
        status, learner, progress = self.status, self.learner, self.progress
        status.batches, status.records, status.aggregations = progress.batches, learner.records, learner.aggregations
        status.feedback, status.scores = progress.feedback, progress.scores
        status.batches_undone, status.rollbacks = progress.undone, progress.rollbacks
        status.score = progress.total / progress.scores if progress.scores else 0.0
        status.recent = sum(self._recent) / len(self._recent) if self._recent else None
        status.gain = progress.gain / progress.compared if progress.compared else None
        status.recent_gain = sum(self._recent_gain) / len(self._recent_gain) if self._recent_gain else None
        home = learner.method.home
        status.home_share = 1.0 - float(home.share(learner.evidence)) if home is not None else 0.0
        if (private := learner.private) is not None:
            status.privacy_windows, status.budget_spent = private.ledger.windows, private.exhausted
            status.privacy_epsilon = epsilon_after(private.privacy, private.ledger.windows)
        status.peers, status.written = peers, now
        me = EdgeView(region=self.config.region, alive=True, vitals=self.vitals())
        status.fleet = with_absent(status.fleet, {**others, self.config.edge: me})
        write_status(status, self._status_file)

    def vitals(self) -> Vitals:
        """The report about this edge that its operator sees, and the fleet as a rule."""
        serving = read_server_status(self._status_file.with_name("serving.json"))
        return make_vitals(self.status, self.learner.links.neighbours, serving)

    def announced_vitals(self) -> Vitals:
        """The report that the fleet gets; with privacy, only what follows from the number of publications."""
        private = self.learner.private
        if private is None:
            return self.vitals()
        return Vitals(aggregations=self.learner.aggregations, budget_spent=private.exhausted)


def _trust_in_rows(learner: Learner, peer: str) -> float:
    """How far rows of new ids that come from a peer count, from 0 to 1: as far as it has proven itself.

    Before its first round an edge can't put anybody on trial. It takes rows as it takes a model to start from, and
    gives them up together if they turn out to be worse than nothing.
    """
    link, trial = learner.links.known.get(peer), learner.method.trial
    if not learner.aggregations:
        return 1.0
    if link is None or link.weight <= 0:
        return 0.0
    if trial is None:
        return 1.0
    is_proven = link.tried and link.counts(learner.aggregations)
    return trial.trust(link.excess) if is_proven else 0.0
