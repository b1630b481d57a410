# SPDX-License-Identifier: Apache-2.0
"""replay_round.py - what an aggregator asks a running job, and whom it blames then: R-CT-36 to R-CT-41, R-CT-43, R-CT-44
and R-CT-56. It keeps whole answers, where the shipped code keeps hashes and what they have come to."""
import collections
import itertools

from replay_member import INTERNAL, M_QUERY, M_WAITING, MISMATCH, MS, NO_RANK, REMOTE, SECOND, TIMEOUT

WAITS, JOINED, READY, LEFT, TOLD = range(5)  # where somebody is; TOLD: that it is over, and has not closed yet
IN = (JOINED, READY)
NONE, GATHER, GRANTED, ENABLING, STARTED, DRAIN = range(6)  # enum admission_state
QUIET, COMPARE, DESCRIBE = range(3)  # enum admission_query
WARN, INFO, DEBUG, LIMITED = range(1, 5)  # enum admission_log
AGREED, WANTED, COVERED = range(3)  # what a switch saw: nothing, something, what the round is about
UNKNOWN, OUTSTANDING, COMPLETE = range(3)  # what somebody says of the number that the round is about
BEYOND = 2**64
WITH_HOSTS = 4  # so many are named with theirs
KINDS = ("allreduce", "barrier", "reduce", "broadcast", "allgather", "reduce_scatter", "gather",
         "scatter", "alltoall", "send")
SIZES = 2**31  # R-MAP-6
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16",
         "float8e4m3", "float8e5m2", "bool", "complex64", "complex128")
OPS = ("sum", "prod", "max", "min", "avg", "band", "bor", "bxor", "land", "lor", "lxor", "minloc",
       "maxloc", "user")
MISFITS = ("?", "another version", "no packet for an aggregator", "a number of lanes that there is not",
           "another length than they say", "flags that there are not", "a slot that there is not",
           "more lanes than agreed", "another tag, round or number of lanes than the others'",
           "rounds ahead of the others", "rounds for which others had no result yet")
ENDS = ("odd", "others", "tie", "not called", "more kinds", "change", "nobody", "leaver", "forgetful", "page",
        "page about", "deadline", "deadline missing", "deadline silent", "deadline both", "complete meanwhile",
        "still", "still one", "still more", "unanswered", "waits", "waits for")
reached = collections.Counter()  # how often a round ended in which way

Op = collections.namedtuple("Op", "number count kind type op root stream name")
Wish = collections.namedtuple("Wish", "stall stall_ms expired expired_ms expired_rank")  # numbers, or None
NO_WISH = Wish(None, 0, None, 0, None)


def name(person):
    return f"rank {person.rank} on {person.host}"


def runs(ranks):
    """ranks 0-2, 4, 6, 7"""
    numbered = itertools.groupby(enumerate(ranks), key=lambda one: one[1] - one[0])
    parts = [[rank for _, rank in run] for _, run in numbered]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(
        f"{part[0]}-{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts)


def seconds(ms):
    return f"{ms // 1000}.{ms // 100 % 10} s"


def type_of(number):
    """With its form, and what it is below: R-NUM-15, R-NUM-16."""
    exponent, form, dtype = number >> 16, number >> 8 & 255, number & 255
    if dtype >= len(TYPES) or form > 4 or exponent and form != 3:
        return "elements"
    return TYPES[dtype] + ("", " as halves", " exactly", f" below 2^{exponent - 126}", " strictly")[form]


def call(op):
    """An operation in words."""
    text = KINDS[op.kind] if op.kind < len(KINDS) else "operation"
    if op.kind != 1:
        text += f" of {op.count} " + type_of(op.type)
    if op.kind in (0, 2, 5):
        text += ", " + (OPS[op.op] if op.op < len(OPS) else "?")
    if op.kind == 0 and op.root:
        text += f" in several buffers (list {op.root})"
    elif op.kind > 1 and op.root >= SIZES:
        text += f" in parts of given sizes (list {op.root}, with the root)"
    elif op.kind in (2, 3, 6, 7):
        text += f", root {op.root}"
    if op.name:
        text += f' "{op.name.decode()}"'
    return text + (" (bulk)" if op.stream else " (express)")


def call_of(person, number):
    """What it calls this number, without the number; None: it has not said."""
    return person.ops.get(number) if person.has_answered else None


class Round:
    """The part of an aggregator that asks. people, size, state, now, text and the like are the other part's."""
    query, from_, answers, asked_ns, page_ns = QUIET, 0, 0, 0, 0
    wish = about = NO_WISH
    mismatch, mismatch_rank, mismatch_other = AGREED, 0, 0
    complete, complete_rank = 0, 0
    waiting = None

    # -- people --

    def member(self, rank):
        """Who is in, or has left, as this rank; None: nobody."""
        for person in self.people:
            if person.rank == rank and person.place in (JOINED, READY, LEFT):
                return person
        return None

    def members(self):
        return list(map(self.member, range(self.size)))

    def ready(self):
        return [person for person in self.people if person.place == READY]

    def ranks(self, ranks):
        """In words; with hosts, if they are few."""
        if len(ranks) > WITH_HOSTS:
            return runs(ranks)
        return ", ".join(name(self.member(rank)) if self.member(rank) else f"rank {rank}" for rank in ranks)

    def patience(self):
        return max(self.silence, 3 * SECOND)

    # -- R-CT-36, R-CT-37: a round --

    def ask(self, query, number):
        self.query, self.from_, self.answers, self.page_ns = query, number, 0, self.now
        self.round = (self.round + 1) % 2**32
        for person in self.people:
            person.has_answered = False
            if person.place == READY:
                self.say(person, M_QUERY, self.round, number)

    def round_begin(self):
        """If one is wanted and none is on its way."""
        if self.query != QUIET or (self.mismatch == AGREED and self.wish.stall is None):
            return
        if self.mismatch == WANTED:
            self.mismatch = COVERED
        self.about, self.wish, self.asked_ns = self.wish, NO_WISH, self.now
        self.ask(COMPARE, 0)

    def round_end(self):
        self.query, self.about = QUIET, NO_WISH
        if self.mismatch == COVERED:
            self.mismatch = AGREED
        for person in self.people:
            person.about = UNKNOWN

    def round_forget(self):
        self.round_end()
        self.mismatch, self.wish, self.complete = AGREED, NO_WISH, 0

    # -- R-CT-38: of all answers --

    def listed(self):
        """{number: what it was called as}."""
        calls = collections.defaultdict(set)
        for person in self.people:
            if person.has_answered:
                for number, op in person.ops.items():
                    if number >= self.from_:
                        calls[number].add(op)
        return calls

    def comparable_end(self, calls):
        """Where somebody's list was cut, or more numbers than there is room for begin."""
        ends = sorted(calls)[self.ops_max:self.ops_max + 1]
        for person in self.people:
            if person.has_answered and person.has_more and person.ops and max(person.ops) + 1 > self.from_:
                ends.append(max(person.ops) + 1)
        return min(ends, default=BEYOND)

    # -- verdicts --

    def leaver(self):
        """R-CT-40"""
        left = [person for person in self.members() if person and person.place == LEFT]
        ready = [person for person in self.members() if person and person.place == READY]
        if not left or not ready:
            return False
        leaver, caller = min(left, key=lambda one: one.submitted), max(ready, key=lambda one: one.submitted)
        if caller.submitted <= leaver.submitted:
            return False
        self.blame(REMOTE, leaver.rank, f"{name(leaver)} left after {leaver.submitted} operations; {name(caller)} has "
                                        f"called {caller.submitted}")
        reached["leaver"] += 1
        return True

    def forgetful(self):
        """R-CT-44"""
        for person in self.members():
            if person.place == READY and person.submitted < self.complete:
                self.blame(INTERNAL, NO_RANK, f"{name(person)} says that it has called {person.submitted} operations, "
                           f"{name(self.member(self.complete_rank))} that {self.complete} are complete: one of them is "
                           "wrong")
                reached["forgetful"] += 1
                return True
        return False

    def about_number(self):
        return (self.about.stall or 0) if self.about.expired is None else self.about.expired

    def is_complete(self):
        return all(person.about == COMPLETE for person in self.ready())

    def not_called(self):
        return [person.rank for person in self.members()
                if (person.has_answered or person.place == LEFT) and person.submitted <= self.about_number()]

    def say_waiting(self):
        number, missing = self.about_number(), self.not_called()
        ms = self.about.stall_ms if self.about.expired is None else self.about.expired_ms
        for person in self.ready():
            self.say(person, M_WAITING)
        if missing:
            how = "waits for " + self.ranks(missing)
        else:
            how = "is complete on all ranks" if self.is_complete() else "is under way on all ranks"
        text = f"operation {number} {how}, for {seconds(ms)}"
        self.waiting = [[M_WAITING, number, ms, len(missing), len(missing)], text.encode(), missing]
        self.log(DEBUG, text)
        reached["waits for" if missing else "waits"] += 1

    def blame_deadline(self):
        """R-CT-56"""
        missing = self.not_called()
        silent = sorted(person.rank for person in self.ready() if not person.has_answered)
        text = f"the deadline of operation {self.about_number()} is over, {seconds(self.about.expired_ms)} after " \
               f"{name(self.member(self.about.expired_rank))} called it: "
        parts = ["not called yet by " + self.ranks(missing)] if missing else []
        parts += ["no answer from " + self.ranks(silent)] if silent else []
        parts = parts or ["all ranks have called it, the network or one of them is slow"]
        self.blame(TIMEOUT, NO_RANK, text + "; ".join(parts))
        reached["deadline both" if missing and silent else "deadline missing" if missing else
                "deadline silent" if silent else "deadline"] += 1

    # -- R-CT-39, R-CT-41: programs that differ --

    def blame_nobody(self):
        """R-CT-41: a switch saw what no member knows of."""
        a, b = self.mismatch_rank, self.mismatch_other
        whose = "two ranks"
        if a < self.size and b < self.size:
            whose = f"{name(self.member(a))} and of {name(self.member(b))}"
        self.blame(INTERNAL, NO_RANK, f"packets of {whose} differ although their calls agree: an internal error "
                                      f'(job "{self.job}", generation {self.generation})')
        reached["nobody"] += 1

    def kinds(self):
        """What was called as this number, in the order of the answers, each with the ranks; and whether the last one
        stands for others, too."""
        kinds, has_more = {}, False
        for person in sorted((one for one in self.people if one.has_answered), key=lambda one: one.answer):
            op = call_of(person, self.from_)
            if op is None:
                continue
            if op not in kinds and len(kinds) == self.groups_max:
                has_more, op = True, list(kinds)[-1]
            kinds.setdefault(op, []).append(person.rank)
        return [(op, sorted(ranks)) for op, ranks in kinds.items()], has_more

    def say_kind(self, op, ranks, or_others):
        who = runs(ranks) if len(ranks) > 2 else self.ranks(ranks)
        return f"{who} {'calls' if len(ranks) == 1 else 'call'} {call(Op(self.from_, *op))}" + \
            (" or others" if or_others else "")

    def judge_description(self):
        """R-CT-39: one is odd if all have called it, and all others alike; the others are the only most."""
        kinds, has_more = self.kinds()
        if len(kinds) < 2:  # somebody describes it otherwise now
            if self.mismatch == COVERED:
                self.blame_nobody()
                return
            self.blame(INTERNAL, NO_RANK, f"the ranks' calls of operation {self.from_} differed when they were asked, "
                       f'and do not any more: an internal error (job "{self.job}", generation {self.generation})')
            reached["change"] += 1
            return
        missing = sorted(set(range(self.size)).difference(*(ranks for _, ranks in kinds)))
        is_whole = not missing and not has_more
        sizes = sorted(len(ranks) for _, ranks in kinds)
        words = [self.say_kind(op, ranks, has_more and op == kinds[-1][0]) for op, ranks in kinds]
        others = None
        if is_whole and sizes[-1] > sizes[-2]:
            others = words.pop([len(ranks) for _, ranks in kinds].index(sizes[-1]))
        odd = NO_RANK
        if is_whole and sizes == [1, self.size - 1] and self.size > 2:
            odd = next(ranks[0] for _, ranks in kinds if len(ranks) == 1)
            reached["odd"] += 1
        text = f"operation {self.from_} differs: " + "; ".join(words)
        if others:
            text += "; the others: " + others
        if missing:
            text += "; not called yet by " + self.ranks(missing)
        self.blame(MISMATCH, odd, text)
        reached["more kinds" if has_more else "not called" if missing else "others" if others else "tie"] += 1

    # -- R-CT-43: a standstill --

    def round_slept(self):
        self.asked_ns = self.page_ns = self.now
        for person in self.people:
            person.still_number = None

    def is_unexplained(self, person):
        return (all(one.submitted > person.still_number for one in self.members()) and
                person.oldest == person.still_number and self.now - person.still_said <= 2500 * MS)

    def say_misfits(self, person):
        why = MISFITS[person.misfit] if person.misfit < len(MISFITS) else MISFITS[0]
        return f"{name(person)} sent {person.misfits} or more packets that do not fit ({why})"

    def misfit(self, event):
        person = self.member(event.rank)
        if self.state != STARTED or not person or event.count < person.misfits:
            return
        person.misfits, person.misfit = event.count, event.misfit
        self.log(LIMITED, self.say_misfits(person))

    def is_standstill(self):
        longest = None
        if self.now - self.asked_ns > SECOND:
            for person in self.people:
                person.still_number = None
            return False
        for person in self.members():
            if person.place != READY or person.still_number is None:
                continue
            if not self.is_unexplained(person):
                person.still_number = None
            elif not longest or person.still_ns < longest.still_ns:
                longest = person
        if not longest or self.now - longest.still_ns < self.patience():
            return False
        number = longest.still_number
        without = [person.rank for person in self.members() if person.still_number == number]
        suspects = [person for person in self.members() if person.misfits]
        why = ", ".join(map(self.say_misfits, suspects)) or \
            "the aggregator refused no packet of any rank: the network loses them, or a rank sends none"
        self.blame(TIMEOUT, suspects[0].rank if len(suspects) == 1 else NO_RANK,
                   f"operation {number} stands still: all ranks have called it, and {self.ranks(without)} had no result "
                   f"for {seconds((self.now - longest.still_ns) // MS)}; {why}")
        reached[("still", "still one", "still more")[min(len(suspects), 2)]] += 1
        return True

    # -- the end of a round --

    def go_on(self):
        self.round_end()
        self.round_begin()

    def nobody_is_wrong(self):
        if self.about.stall is not None:
            self.say_waiting()
        for person in self.members():
            if person.place == READY and person.oldest > self.complete:
                self.complete, self.complete_rank = person.oldest, person.rank
        self.go_on()

    def next_query(self, page_end):
        """R-CT-38: from where the next page is; None: this was the last."""
        submitted = sorted(person.submitted for person in self.members())
        if self.size > 1 and page_end < submitted[-2]:
            reached["page"] += 1
            return page_end
        is_unknown = any(person.about == UNKNOWN for person in self.ready())
        if self.mismatch != COVERED and self.about.expired is not None and is_unknown and \
                self.from_ != self.about_number():
            reached["page about"] += 1
            return self.about_number()
        return None

    def blames(self):
        """When all pages have come: whether somebody, or nobody, is to blame for what the round is about."""
        if self.mismatch == COVERED:
            self.blame_nobody()
            return True
        if self.about.expired is not None and not self.is_complete():
            self.blame_deadline()
            return True
        return self.is_standstill()

    def judge(self):
        if self.query == DESCRIBE:
            self.judge_description()
            self.end_life()
            return
        calls = self.listed()
        page_end = self.comparable_end(calls)
        differ = [number for number, ops in calls.items() if len(ops) > 1 and number < page_end]
        if differ:
            self.ask(DESCRIBE, min(differ))
            return
        if self.leaver() or self.forgetful():
            self.end_life()
            return
        number = self.next_query(page_end)
        if number is not None:
            self.ask(COMPARE, number)
        elif self.blames():
            self.end_life()
        else:
            self.nobody_is_wrong()

    def judge_if_all_answered(self):
        if all(person.has_answered for person in self.ready()):
            self.judge()

    def round_left(self):
        if self.leaver():
            self.end_life()
        elif self.query != QUIET:
            self.judge_if_all_answered()

    def read_about(self, person):
        """Complete is what was called and is not listed, where the list is whole."""
        about, known_end = self.about_number(), BEYOND
        if call_of(person, about) is not None or person.submitted <= about:
            person.about = OUTSTANDING
            return
        if person.has_more:
            known_end = max(person.ops) + 1 if person.ops else self.from_
        if person.oldest > about or self.from_ <= about < known_end:
            person.about = COMPLETE

    def opinfo(self, person, number, submitted, oldest, has_more, *ops):
        if self.query == QUIET or number != self.round or person.has_answered:
            return
        self.answers += 1
        person.has_answered, person.answer = True, self.answers
        person.submitted, person.oldest, person.has_more = submitted, oldest, has_more
        person.ops = {op[0]: (*op[1:], called) for op, called in zip(ops[::2], ops[1::2])}
        if self.query == COMPARE:
            self.read_about(person)
        self.judge_if_all_answered()

    def note_still(self, person, number, told):
        if person.still_number != number or self.now - person.still_said > 2500 * MS:
            person.still_number, person.still_ns = number, self.now
        person.still_ns = max(person.still_ns, self.now - told)
        person.still_said = self.now

    def stall(self, person, number, waited_ms, still_ms, is_expired):
        wish = self.wish
        if not is_expired:
            self.note_still(person, number, still_ms * MS)
        elif wish.expired is None:
            wish = wish._replace(expired=number, expired_ms=waited_ms, expired_rank=person.rank)
        if wish.stall is None or number < wish.stall:
            wish = wish._replace(stall=number, stall_ms=0)
        if number == wish.stall:
            wish = wish._replace(stall_ms=max(waited_ms, wish.stall_ms))
        self.wish = wish
        # R-CT-56: a deadline does not wait for a round that is about something else.
        if wish.expired is not None and self.query != QUIET and self.about.expired is None:
            if self.mismatch != AGREED:
                self.mismatch = WANTED
            self.round_end()
        self.round_begin()

    def switch_saw(self, event):
        if self.state != STARTED:
            return
        if self.mismatch == AGREED:
            self.mismatch, self.mismatch_rank, self.mismatch_other = WANTED, event.rank, event.other
        self.round_begin()

    # -- the clock --

    def round_tick(self):
        if self.query == QUIET:
            return False
        if self.about.expired is not None and self.now >= self.asked_ns + SECOND:
            if self.is_complete():
                self.say_waiting()
                self.go_on()
                reached["complete meanwhile"] += 1
            else:
                self.blame_deadline()
                self.end_life()
            return True
        if self.now < self.page_ns + self.patience():
            return False
        for person in self.members():
            if person.place == READY and not person.has_answered:
                self.blame(REMOTE, person.rank, f"{name(person)} is heard, but has not said for "
                                                f"{self.patience() // MS} ms what it has called")
                self.end_life()
                reached["unanswered"] += 1
                return True
        return False

    def round_wake(self):
        if self.query == QUIET:
            return BEYOND
        if self.about.expired is None:
            return self.page_ns + self.patience()
        return min(self.page_ns + self.patience(), self.asked_ns + SECOND)
