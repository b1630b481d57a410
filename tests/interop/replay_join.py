# SPDX-License-Identifier: Apache-2.0
"""replay_join.py - who gets in at an aggregator, who waits, and who is refused: R-CT-10 to R-CT-12, R-CT-23, R-CT-26 and
R-CT-34."""
from replay_member import DENIED, JOIN, M_DENY, M_PING, NO_RANK, NO_RESOURCE, SECOND, TEXT_MAX, VERSION_BAD
from replay_round import (ENABLING, GATHER, GRANTED, IN, INFO, JOINED, LIMITED, NONE, STARTED, UNKNOWN, WAITS, WARN,
                          Round, name)

VERSION = 3
LATENCY = 1  # enum control_mode
JOB_ADD, JOB_SET, JOB_REMOVE = range(3)  # enum admission_command
CLOSE = "close"
PEER = ("heard spoke joined list_hash program boot process source connection pid workers timeout_ms latency_slots "
        "latency_window size rank mode local_size is_launched").split()


class Person:
    place, about, has_answered, is_alive, ops = WAITS, UNKNOWN, False, False, {}
    submitted = oldest = answer = misfits = misfit = lanes = 0
    asked = 0  # the serial of the last PING, 0: none
    still_number, still_ns, still_said = None, 0, 0

    def __init__(self, said, host, has_list, nonce):
        self.__dict__.update(said)
        self.host, self.has_list, self.nonce = host.decode(), has_list, nonce


def are_apart(one, other):
    """R-CT-10: one's launcher says that one host has all of them, and the other is on another."""
    if not one.boot or not other.boot or one.boot == other.boot:
        return False
    return one.local_size == one.size or other.local_size == other.size


def wants(person):
    return person.size, person.list_hash, person.mode, person.latency_slots, person.latency_window


def says_what(person, other):
    """Of the first thing in which the other one says something else."""
    if person.size != other.size:
        says = f"says size {person.size}"
    elif person.list_hash != other.list_hash and person.has_list:
        says = f"was given the aggregators l{person.list_hash}"
    elif person.list_hash != other.list_hash:
        says = f"was given a list of aggregators with hash {person.list_hash}"
    elif wants(person) == wants(other) and person.local_size == person.size:
        says = f"says that all {person.size} ranks are on its host"
    elif wants(person) == wants(other):
        says = "is on another host"
    elif person.mode == LATENCY:
        says = f"wants latency mode with {person.latency_slots} slots and a window of {person.latency_window}"
    else:
        says = "wants dense mode"
    return f"{name(person)} {says}"


class Join(Round):
    """The part of an aggregator that lets people in. config, people, end_life and the like are the other part's."""
    is_terminating = is_refusing = is_refusing_all = False
    refused_ns, refused_cause, refused_text = 0, (0, NO_RANK), ""
    unfit_ns, unfit_cause, unfit_text = 0, 0, ""

    # -- people --

    def whose(self, connection):
        for person in self.people:
            if person.connection == connection and connection:
                return person
        return None

    def waiters(self):
        return [person for person in self.people if person.place == WAITS]

    def those_in(self):
        return [person for person in self.people if person.place in IN]

    def is_running(self):
        return self.state in (GRANTED, ENABLING, STARTED)

    # -- what is said --

    def say(self, person, *message):
        self.said.append((person.connection, message))

    def say_last(self, person, kind):
        self.say(person, kind)
        self.say(person, CLOSE)

    def blame(self, cause, rank, text):
        self.cause, self.cause_rank, self.text = cause, rank, text

    def log(self, level, text):
        self.logged = level, text

    def log_person(self, person, what):
        self.log(INFO, f"{name(person)} (process {person.pid}) {what}")

    def order(self, what):
        self.command, self.acked = (what, self.generation), set()

    def have_all_acked(self):
        return len(self.acked) == self.shards

    def enter(self, state):
        self.state, self.since = state, self.now

    # -- R-CT-26: who is unfit --

    def forget_unfit(self):
        self.unfit, self.unfit_source, self.unfit_ns, self.unfit_cause = set(), {}, 0, 0

    def is_hopeless(self):
        """Nobody is left who could complete it."""
        missing = {rank for rank in range(self.size) if not self.member(rank)}
        return bool(missing) and missing <= self.unfit

    # -- R-CT-10: all are refused --

    def begin_refusal(self):
        self.is_refusing, self.is_refusing_all, self.refused_ns, self.refused = True, False, self.now, set()
        self.refused_cause, self.refused_text = (self.cause, self.cause_rank), self.text

    def end_gathering(self, last):
        is_new = self.life and not self.is_refusing
        self.last = self.cause, self.cause_rank
        if is_new:
            self.begin_refusal()
        self.log(WARN, self.text)
        for person in self.those_in():
            if is_new:
                self.refused.add(person.rank)
            self.say_last(person, last)
        self.clear()

    def deny_waiters(self):
        for person in self.waiters():
            self.say_last(person, M_DENY)
            self.people.remove(person)

    def refuse_all(self, comer=None):
        """All who gather and who wait, and `comer`, who does neither."""
        self.begin_refusal()
        if comer:
            self.refused.add(comer.rank)
            self.say_last(comer, M_DENY)
        self.refused.update(person.rank for person in self.people)
        self.deny_waiters()
        self.end_gathering(M_DENY)

    def refuse_hopeless(self, comer=None):
        """R-CT-26: whoever was noted has heard it."""
        noted = self.unfit
        self.refuse_all(comer)
        self.refused |= noted

    def refuse_twins(self):
        """R-CT-23: of a gathering or a life, and for all who come."""
        if self.state == GATHER:
            self.refuse_all()
        else:
            self.begin_refusal()
            self.deny_waiters()
            self.end_life()
        self.is_refusing_all = True

    # -- R-CT-10 to R-CT-12: who comes --

    def holder_of(self, claimant):
        """R-CT-11: who may be dead, and has what this one claims."""
        rank = claimant.rank
        if self.is_running():
            rank %= self.size
        elif self.state != GATHER:
            return None
        holder = self.member(rank)
        return holder if holder and holder.place in IN else None

    def ping_both(self, claimant):
        holder = self.holder_of(claimant)
        if not holder:
            return
        self.pings += 1
        for person in (holder, claimant):
            person.asked, person.is_alive = self.pings, False
            self.say(person, M_PING, self.pings)

    def deny(self, person):
        self.log(LIMITED, self.text)
        self.say_last(person, M_DENY)

    def is_impossible(self, comer):
        """What the aggregator can never take."""
        if self.is_terminating:
            self.is_ending = 1
            self.blame(DENIED, NO_RANK, f'job "{self.job}": the aggregator is shutting down')
        elif not 0 < comer.size <= self.members_max:
            self.blame(NO_RESOURCE, NO_RANK, f'job "{self.job}" of {comer.size} ranks: this aggregator takes 1 to '
                                             f"{self.members_max}")
        elif comer.rank >= comer.size:
            self.blame(DENIED, NO_RANK, f"{name(comer)}: there is no such rank in a job of {comer.size}")
        elif comer.workers * comer.size > 65535:
            self.blame(NO_RESOURCE, NO_RANK, f"{name(comer)} stands for {comer.workers} workers, in a job of "
                                             f"{comer.size}: at most {65535 // comer.size}")
        else:
            return False
        return True

    def is_refused_again(self, comer):
        """R-CT-10: as before, for 5 s, or for ever in a life."""
        if not self.is_refusing:
            return False
        if (not self.life and self.now >= self.refused_ns + 5 * SECOND) or \
                (not self.is_refusing_all and comer.rank in self.refused):
            self.is_refusing = False
            return False
        again = ""
        if not self.life:
            age = (self.now - self.refused_ns) // SECOND
            again = f" (refused {age} s ago; start again in {5 - age} s)"
        self.blame(*self.refused_cause, self.refused_text[:TEXT_MAX] + again)
        self.refused.add(comer.rank)
        return True

    def keep(self, person, place):
        person.place, person.asked, person.is_alive = place, 0, False
        self.people.append(person)

    def take_in(self, comer):
        self.keep(comer, JOINED)
        self.log_person(comer, "has joined")
        if None not in self.members():
            self.enter(GRANTED)
            self.life_id, self.generation = self.event.random or 1, self.event.generation
            self.order(JOB_ADD)
            self.forget_claims()
            self.forget_unfit()
            self.log(INFO, f"all {self.size} ranks are here: generation {self.generation}")
        elif self.is_hopeless():
            self.blame(self.unfit_cause, NO_RANK, self.unfit_text)
            self.refuse_hopeless()

    def wait_in_line(self, comer):
        if len(self.waiters()) == self.waiters_max:
            self.blame(NO_RESOURCE, NO_RANK, f'job "{self.job}": {self.waiters_max} processes wait for its name already')
            self.deny(comer)
            return
        self.log_person(comer, "waits: its rank or the job's name is in use")
        self.keep(comer, WAITS)
        self.ping_both(comer)

    def admit(self, comer):
        if self.is_impossible(comer) or (self.state == NONE and self.is_refused_again(comer)):
            self.deny(comer)
            return
        if self.state == NONE:
            self.enter(GATHER)
            if self.now - self.unfit_ns >= 5 * SECOND:
                self.forget_unfit()
            self.size, self.progressed = comer.size, self.now
        if self.state != GATHER:
            self.wait_in_line(comer)
            return
        for other in filter(None, self.members()):
            if wants(comer) == wants(other) and not are_apart(comer, other):
                continue
            hint = ": if these are two jobs, give each its TALLY_JOB" if wants(comer) == wants(other) else ""
            self.blame(DENIED, NO_RANK,
                       f'job "{self.job}": {says_what(comer, other)}, {says_what(other, comer)}{hint}')
            self.refuse_all(comer)
            return
        if self.member(comer.rank):
            self.wait_in_line(comer)
        else:
            self.take_in(comer)

    def unfit_comes(self, comer, cause, text):
        """R-CT-26: another key, another version: it hears nothing of the others."""
        self.blame(cause, NO_RANK, text)
        if self.state not in (NONE, GATHER):
            self.deny(comer)
            return
        source = self.event.source
        if source:
            self.unfit = {rank for rank in self.unfit if self.unfit_source.get(rank) != source}
        if comer.rank < self.members_max:
            self.unfit.add(comer.rank)
            self.unfit_source[comer.rank] = source
        self.unfit_ns, self.unfit_cause, self.unfit_text = self.now, cause, text
        if self.state == GATHER and self.is_hopeless():
            self.refuse_hopeless(comer)
        else:
            self.deny(comer)

    def join(self, numbers, host, key, list_of):
        event = self.event
        comer = Person(dict(zip(JOIN, numbers)), host, bool(list_of), event.nonce)
        comer.__dict__.update(connection=event.connection, source=event.source, heard=self.now, spoke=self.now,
                              joined=self.now)
        if self.key != [] and key != self.key:
            gave = "gave a key that is not this aggregator's" if key else "gave no key, and this aggregator wants one"
            self.unfit_comes(comer, DENIED, f'job "{self.job}": {name(comer)} {gave}')
        elif not comer.version_min <= VERSION <= comer.version_max:
            self.unfit_comes(comer, VERSION_BAD, f"{name(comer)} speaks protocol versions {comer.version_min} to "
                                                 f"{comer.version_max}, this aggregator {VERSION}")
        else:
            if comer.rank in self.unfit:
                self.unfit.remove(comer.rank)
                if not self.unfit:
                    self.forget_unfit()
            self.admit(comer)

    # -- R-CT-11, R-CT-23, R-CT-34: claims --

    def are_twins(self, holder, claimant):
        """R-CT-23"""
        if self.life or not (holder.is_launched or claimant.is_launched) or 0 != holder.process == claimant.process:
            return False
        programs = {person.program for person in self.people if person.place != WAITS and person.program}
        if self.state == STARTED and claimant.joined > self.since + 2 * SECOND and len(programs) < 2:
            return False
        return not are_apart(holder, claimant)

    def are_from_there(self):
        """R-CT-34: do all that wait for a rank of this job come from where its holder does? Else one text would tell
        them all."""
        pairs = ((self.holder_of(person), person) for person in self.waiters())
        return self.key != [] or all(not holder or holder.source == person.source for holder, person in pairs)

    def judge_claim(self, holder, claimant, is_named):
        """Whether nobody else is to be judged after it."""
        is_twin = self.are_twins(holder, claimant)
        text = f'job "{self.job}": rank {holder.rank} is held by process {holder.pid} on {holder.host}, '
        both = text + f"and process {claimant.pid} on {claimant.host} claims it too; both are alive"
        if is_twin:
            two = "programs of one launch" if holder.boot == claimant.boot else "jobs of one name"
            self.blame(DENIED, NO_RANK, f"{both}; the name is the launcher's, and there are two {two}: give each its "
                                        "TALLY_JOB")
            self.refuse_twins()
            return True
        if self.state == GATHER:
            self.blame(DENIED, NO_RANK, both)
            self.refuse_all()
            return True
        why = "which is alive: the job runs, another of its name must wait"
        self.log(LIMITED, text + why)
        if not is_named:
            text = f'job "{self.job}": rank {holder.rank} is held by a process of another address (the aggregator\'s ' \
                   "log names it), "
        self.blame(DENIED, NO_RANK, text + why)
        self.say_last(claimant, M_DENY)
        self.people.remove(claimant)
        return False

    def pong(self, person, serial):
        """R-CT-11: who waits, in turn, has it answered the last PING, as its rank's holder has?"""
        if not person.asked or person.is_alive or person.asked != serial:
            return
        person.is_alive = True
        is_named = self.are_from_there()
        for claimant in self.waiters():
            holder = self.holder_of(claimant)
            if holder and holder.is_alive and claimant.is_alive and self.judge_claim(holder, claimant, is_named):
                return

    def adopt(self, event, peer, host, list_of):
        """R-CT-24"""
        self.admit(Person(dict(zip(PEER, peer)), host, bool(list_of), event.nonce))
