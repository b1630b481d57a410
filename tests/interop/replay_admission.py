# SPDX-License-Identifier: Apache-2.0
"""replay_admission.py - what an aggregator does for one name of a job: R-CT-8 to R-CT-44, with replay_join.py and
replay_round.py. It keeps a list of people in the order in which they came. Judged is all but the order between
connections. Which of several things one TICK does first is the shipped code's choice, repeated here, and so are the
words of texts."""
import collections

from replay_join import CLOSE, JOB_ADD, JOB_REMOVE, JOB_SET, VERSION, Join
from replay_member import (ABORTED, DENIED, M_ABORT, M_DENY, M_GRANT, M_HEARTBEAT, M_JOIN, M_LEAVE, M_LEFT,
                           M_OPINFO, M_PING, M_PONG, M_PROGRESS, M_READY, M_STALL, M_START, M_WAITING, MISMATCH, MS,
                           NEVER, NO_RANK, NO_RESOURCE, OK, REMOTE, SECOND, SYSTEM, TEXT_MAX, TIMEOUT, VERSION_BAD)
from replay_numbers import expect
from replay_round import (DRAIN, ENABLING, ENDS, GATHER, GRANTED, IN, INFO, JOINED, LEFT, LIMITED, NONE, QUIET, READY,
                          STARTED, TOLD, WAITS, WARN, name, reached)

KEPT_ROUND, KEPT_LIFE, KEPT_PEOPLE, KEPT_REFUSAL, KEPT_UNFIT = (1 << bit for bit in range(5))
LOOKED = "the state, how many wait, the round, what a switch saw, whether there is more to do at once (R-CT-12), when " \
    "it wakes up, the log, the end of the last life"
ENDED = {DENIED: "it was denied", VERSION_BAD: "it was denied", NO_RESOURCE: "it was denied",
         MISMATCH: "its ranks called different operations", TIMEOUT: "not all came in time",
         REMOTE: "a member was lost"}

Event = collections.namedtuple("Event", "now random generation connection source rank other misfit count shard command "
                               "job_generation is_path cause has_failed text nonce")


class Admission(Join):
    state, size, generation, lanes, life_id = NONE, 0, 0, 0, 0
    now = since = ticked = beaten = progressed = 0
    last = OK, NO_RANK  # how the last life ended
    command = None
    cause, cause_rank, text, is_ending, logged = OK, NO_RANK, "", 0, (0, "")

    def __init__(self, life, members_max, waiters_max, ops_max, groups_max, shards, lanes_max, heartbeat, gather, number,
                 pings, job, key):
        self.life, self.members_max, self.waiters_max, self.shards = life, members_max, waiters_max, shards
        self.ops_max, self.groups_max, self.lanes_max = ops_max, groups_max, lanes_max
        self.heartbeat, self.gather, self.round, self.pings = heartbeat, gather, number, pings
        self.job, self.key = job.decode(), key
        self.beat = min(heartbeat // 5, 2 * SECOND)
        self.silence = heartbeat + 2 * self.beat  # R-CT-9
        self.people, self.said, self.acked = [], [], set()
        self.refused, self.unfit, self.unfit_source = set(), set(), {}

    # -- R-CT-16, R-CT-17: ends --

    def forget_claims(self):
        for person in self.waiters():
            person.asked, person.is_alive = 0, False

    def clear(self):
        """Only who waits is kept."""
        self.enter(NONE)
        self.people = self.waiters()
        self.size = self.generation = self.lanes = 0
        self.forget_unfit()
        self.forget_claims()

    def clear_if_drained(self):
        if self.state == DRAIN and self.have_all_acked() and all(person.place != TOLD for person in self.people):
            self.clear()

    def drain(self):
        self.enter(DRAIN)
        self.order(JOB_REMOVE)
        self.round_forget()
        self.forget_claims()
        self.clear_if_drained()

    def end_life(self):
        self.last = self.cause, self.cause_rank
        self.log(WARN, self.text)
        for person in self.those_in():
            self.say_last(person, M_ABORT)
            person.place = TOLD
        self.drain()

    def lose(self, person):
        """R-CT-8, R-CT-16, R-CT-21"""
        self.people.remove(person)
        if self.state != GATHER:
            self.end_life()
        elif self.life:
            self.refuse_all()
        else:
            self.forget_claims()
            if len(self.people) == len(self.waiters()):
                self.clear()

    def closed(self, event):
        person = self.whose(event.connection)
        if not person:
            return
        if person.place in IN and self.state == GATHER:
            self.log_person(person, "has gone")
            self.blame(REMOTE, person.rank,
                       f'{name(person)} has gone (process {person.pid}) before job "{self.job}" was complete')
            self.lose(person)
        elif person.place in IN:
            self.blame(REMOTE, person.rank, f"{name(person)} died: process {person.pid} has closed its connection "
                                            "without leaving")
            self.lose(person)
        else:
            self.people.remove(person)
            self.clear_if_drained()

    def silent(self, person):
        waits = person.place == WAITS
        how = " over TCP, although it is heard over UDP" if self.is_heard(person) else ""
        self.blame(REMOTE, person.rank, f"{name(person)} has been silent for more than {self.heartbeat // MS} ms{how} "
                                        f"(process {person.pid})")
        self.log(LIMITED if waits else WARN, self.text)
        self.say_last(person, M_DENY if waits or self.state == GATHER else M_ABORT)
        if waits:
            self.people.remove(person)
        else:
            self.lose(person)

    def terminate(self, _=None):
        """R-CT-19"""
        self.is_terminating = True
        self.is_ending = 1
        self.blame(DENIED, NO_RANK, f'job "{self.job}": the aggregator is shutting down')
        self.deny_waiters()
        if self.state == GATHER:
            self.end_gathering(M_DENY)

    def kill(self, _):
        if not self.is_running():
            self.terminate()
            return
        self.is_terminating = True
        self.blame(REMOTE, NO_RANK, f'job "{self.job}": the aggregator is shutting down, the time to end is over')
        self.end_life()

    def alarm(self, event):
        """R-CT-42"""
        person = self.member(event.rank)
        if self.state == STARTED:
            self.log(LIMITED, f"{name(person) if person else 'somebody'} sent a packet that a sound worker never sends: "
                              "dropped")

    def broken(self, event):
        if self.is_running():
            how = "the data path is broken" if event.text == [] else event.text.decode()
            self.blame(event.cause or SYSTEM, event.rank, f'job "{self.job}": {how}')
            self.end_life()

    def orphan(self, event):
        """R-CT-21"""
        if self.state == GATHER:
            how = event.text.decode()
            self.blame(REMOTE, NO_RANK, f'job "{self.job}": the job that it is a part of has ended: {how}')
            self.refuse_all()

    def deserted(self, event):
        """R-CT-59"""
        if self.state == GATHER and event.rank < self.size and not self.member(event.rank):
            call = "tally_recv" if event.rank else "tally_send"
            self.blame(REMOTE, NO_RANK, f'job "{self.job}": rank {event.other} on {event.text.decode()} has finalized, '
                                        f"and will not call {call}")
            self.refuse_all()

    def yields(self, _):
        """R-CT-24"""
        if self.state != GATHER:
            return
        self.log(WARN, self.ranks(sorted(person.rank for person in self.those_in())) +
                 ": another command line than other ranks of this name: one job with them, as they are complete "
                 "together, and tally run has started one program for each rank")
        self.clear()

    # -- messages --

    def ready_said(self, person, lanes):
        if self.state != GRANTED or person.place != JOINED or not self.have_all_acked():
            return
        person.place, person.lanes = READY, lanes
        if all(one.place == READY for one in self.those_in()):
            self.lanes = min(self.lanes_max, *(one.lanes for one in self.those_in())) // 4 * 4
            self.enter(ENABLING)
            self.order(JOB_SET)

    def leave(self, person, submitted):
        """R-CT-18"""
        if self.state != STARTED:
            self.blame(REMOTE, person.rank, f"{name(person)} left before the job had started")
            self.say(person, CLOSE)
            self.lose(person)
            return
        self.log_person(person, "has left")
        person.place, person.submitted = LEFT, submitted
        self.say_last(person, M_LEFT)
        person.connection = 0
        if self.those_in():
            self.round_left()
        else:
            self.last = OK, NO_RANK
            self.drain()

    def aborts(self, person, cause, text):
        how = ("aborted" if cause == ABORTED else "failed") + (f": {text.decode()}" if text else "")
        self.blame(cause if cause in (MISMATCH, TIMEOUT) else REMOTE, person.rank, f"{name(person)} {how}")
        self.log(WARN, self.text)
        self.say(person, CLOSE)
        self.lose(person)

    def member_says(self, person, kind, fields, texts):
        if kind == M_READY:
            self.ready_said(person, *fields)
        elif kind == M_LEAVE:
            self.leave(person, *fields)
        elif kind == M_ABORT:
            self.aborts(person, fields[0], *texts)
        elif kind == M_STALL and self.state == STARTED:
            self.stall(person, *fields)
        elif kind == M_OPINFO and self.state == STARTED:
            self.opinfo(person, *fields, *texts)

    def message(self, event, message, *texts):
        person, (kind, *fields) = self.whose(event.connection), message
        if not person:
            if kind == M_JOIN:
                self.join(fields, *texts[1:])
            return
        person.heard = person.spoke = self.now
        if person.place == TOLD:
            return
        if kind == M_PING:
            self.say(person, M_PONG, *fields)
        elif kind == M_PONG:
            self.pong(person, *fields)
        elif person.place in IN:
            self.member_says(person, kind, fields, texts)
        elif kind in (M_ABORT, M_LEAVE):
            self.say(person, CLOSE)
            self.people.remove(person)

    # -- R-CT-14, R-CT-15: shards --

    def start(self):
        """R-CT-15: if its time has come."""
        if self.now < self.start_at():
            return False
        for person in self.those_in():
            self.say(person, M_START)
        self.enter(STARTED)
        self.log(INFO, f"{self.size} ranks start with {self.lanes} lanes")
        return True

    def shard_failed(self, event):
        text = "" if event.text == [] else event.text.decode()
        if event.is_path:
            self.blame(SYSTEM, event.rank, f'job "{self.job}" of {self.size}: {text}')
        else:
            self.blame(NO_RESOURCE, NO_RANK, f'job "{self.job}" of {self.size}: the aggregator has no room for it '
                                             f"(shard {event.shard}){': ' if event.text != [] else ''}{text}")
        self.end_life()

    def shard(self, event):
        if (self.state, event.command) not in ((GRANTED, JOB_ADD), (ENABLING, JOB_SET), (DRAIN, JOB_REMOVE)) or \
                event.job_generation != self.generation or event.shard >= self.shards:
            return
        if event.has_failed and self.state != DRAIN:
            self.shard_failed(event)
            return
        if event.shard in self.acked:
            return
        self.acked.add(event.shard)
        if not self.have_all_acked():
            return
        if self.state == DRAIN:
            self.clear_if_drained()
        elif self.state == ENABLING:
            self.start()
        else:
            for person in self.those_in():
                self.say(person, M_GRANT)

    # -- R-CT-9: silence --

    def limit_of(self, person):
        """Who waits or has not said READY does not know a shorter time."""
        return max(self.silence, 10 * SECOND) if person.place in (WAITS, JOINED) else self.silence

    def is_heard(self, person):
        return person.heard + self.limit_of(person) > self.now

    def first_silent(self):
        """Members by rank, then who waits, by age."""
        if self.state == DRAIN:
            return None
        silent = [person for person in self.people if person.place != LEFT and (
            not self.is_heard(person) or person.spoke + 3 * self.limit_of(person) <= self.now)]
        return min(silent, key=lambda person: NO_RANK if person.place == WAITS else person.rank, default=None)

    def heard(self, event):
        person = self.member(event.rank)
        if self.is_running() and person and person.place in IN:
            person.heard = self.now

    # -- R-CT-13: patience --

    def late_at(self):
        if not GATHER <= self.state <= ENABLING:
            return NEVER
        since, late = self.gather + self.since, NEVER
        for person in self.people:
            if person.place in IN:
                own = person.joined + self.gather if self.state == GATHER else since
                late = min(late, person.joined + person.timeout_ms * MS if person.timeout_ms else own)
        if self.state == GRANTED and all(person.place != READY for person in self.people):
            late += SECOND
        return late

    def late(self):
        unready = sorted(person.rank for person in self.people if person.place == JOINED)
        text = f'job "{self.job}" of {self.size}: '
        if self.state == GATHER:
            text += self.ranks(self.missing()) + " did not come in time" + self.unfit_too()
        elif self.state == GRANTED:
            text += self.ranks(unready) + " did not get ready in time"
        else:
            text += "the aggregator's shards did not get ready in time"
        self.blame(TIMEOUT, NO_RANK, text)
        if self.state == GATHER:
            self.end_gathering(M_ABORT)
        else:
            self.end_life()

    def start_at(self):
        """R-CT-15, R-CT-23: a second after the last of those who have a launcher's name has come, but while all are
        patient."""
        if self.state != ENABLING or not self.have_all_acked():
            return NEVER
        start, those_in = 0, self.those_in()
        if self.size > 1 and not self.life and any(person.is_launched for person in those_in):
            start = max(person.joined for person in those_in) + SECOND
        return min(start, self.late_at())

    # -- the clock --

    def wake_at(self):
        wake = min(self.round_wake(), self.late_at(), self.start_at(), NEVER)
        return min(wake, self.beaten + self.beat) if self.state != NONE or self.people else wake

    def missing(self):
        return [rank for rank in range(self.size) if not self.member(rank)]

    def unfit_too(self):
        return f"; denied meanwhile: {self.unfit_text}" if self.unfit_cause else ""

    def say_progress(self):
        self.progressed = self.now
        self.text = f'job "{self.job}": '
        if self.state == GATHER:
            self.text += f"waiting for {self.ranks(self.missing())} of {self.size}{self.unfit_too()}"
        else:
            self.text += f"waiting until a job of this name and {self.size} ranks has ended"
        cause, rank = self.last
        if cause != OK:
            self.text += "; the last one ended with: " + ENDED.get(cause, "an error")
        if cause != OK and rank != NO_RANK:
            self.text += f" (rank {rank})"
        self.log(INFO, self.text)
        for person in self.waiters() + (self.those_in() if self.state == GATHER else []):
            self.say(person, M_PROGRESS)

    def next_to_move(self):
        """R-CT-12: the first who can do anything but wait."""
        for person in self.people:
            if person.place == WAITS and (
                    self.state == NONE or
                    (self.state == GATHER and (person.size != self.size or not self.member(person.rank))) or
                    (not person.asked and self.holder_of(person))):
                return person
        return None

    def next_moves(self):
        person = self.next_to_move()
        if not person:
            return
        if self.holder_of(person) and not (self.state == GATHER and person.size != self.size):
            self.ping_both(person)
            return
        self.people.remove(person)
        self.admit(person)

    def tick(self, _):
        """One thing at a time: each has its own text."""
        if self.now - self.ticked >= self.heartbeat // 4:
            for person in self.people:
                person.heard = person.spoke = self.now
            self.round_slept()
        self.ticked = self.now
        if self.now - self.beaten >= self.beat:
            self.beaten = self.now
            for person in self.waiters() + (self.those_in() if self.state != DRAIN else []):
                self.say(person, M_HEARTBEAT)
        silent = self.first_silent()
        if silent:
            self.silent(silent)
        elif self.round_tick() or self.start():
            return
        elif self.now >= self.late_at():
            self.late()
        elif (self.state == GATHER or self.waiters()) and self.now - self.progressed >= 10 * SECOND:
            self.say_progress()
        else:
            self.next_moves()

    # -- what it has done --

    def happens(self, kind, event, *more):
        self.event, self.now = event, event.now
        self.said, self.command, self.is_ending, self.logged = [], None, 0, (0, "")
        EVENTS[kind](self, event, *more)

    def message_of(self, connection, kind, *fields):
        """As it is recorded: numbers, and lists and texts."""
        if kind in (M_DENY, M_ABORT):
            return [kind, self.cause, self.cause_rank, self.is_ending], self.text[:TEXT_MAX].encode()
        if kind == M_PROGRESS:
            return [kind], self.text[:TEXT_MAX].encode()
        if kind == M_WAITING:
            return self.waiting
        if kind == M_GRANT:
            workers = sum(person.workers for person in self.those_in())
            return [kind, self.life_id, workers, self.heartbeat // MS, VERSION, self.size], \
                self.whose(connection).nonce, []
        if kind == M_START:
            members = ([[person.rank, person.pid], person.host.encode()] for person in self.members())
            return [kind, self.lanes], *(part for member in members for part in member)
        return ([kind, *fields],)

    def next_said(self, connection):
        """To this connection; None: nothing."""
        for at, (whose, message) in enumerate(self.said):
            if whose == connection:
                del self.said[at]
                return message
        return None

    def sends(self, connection, *message):
        wanted = self.next_said(connection)
        expect(f"what is said to {connection}", list(message),
               wanted and (wanted if wanted[0] == CLOSE else list(self.message_of(connection, *wanted))))

    def closes(self, connection):
        expect(f"whether {connection} is closed", (CLOSE,), self.next_said(connection))

    def orders(self, what, generation, lanes):
        expect("what shards are told", (what, generation), self.command)
        if what == JOB_SET:
            expect("lanes", lanes, self.lanes)
        self.command = None

    def look(self, is_tick, state, waiters, again, wake, level, query, mismatch, cause, rank, kept, heard,
             log):
        expect("who, and what shards are not told", (self.said, self.command), ([], None))
        has_more = bool(self.next_to_move() or (is_tick and self.first_silent()))
        expect(LOOKED, (state, waiters, query, mismatch, bool(again), wake, level, log, (cause, rank)),
               (self.state, len(self.waiters()), self.query, self.mismatch, has_more, self.wake_at(), self.logged[0],
                self.logged[1][:TEXT_MAX].encode(), self.last))
        times = [min(person.heard, person.spoke) for person in self.people if person.connection]
        expect("R-CT-9: when somebody was heard, the earliest", heard, min(times, default=NEVER))
        may_keep = (KEPT_ROUND if self.query != QUIET else 0) | (KEPT_LIFE if self.state == STARTED else 0) | \
            (KEPT_PEOPLE if self.state != NONE else 0) | (KEPT_REFUSAL if self.is_refusing else 0) | \
            (KEPT_UNFIT if self.unfit_cause else 0)
        expect("what is kept, although it is over", kept & ~may_keep, 0)


EVENTS = (Admission.message, Admission.closed, Admission.heard, Admission.shard, Admission.switch_saw, Admission.alarm,
          Admission.misfit, Admission.broken, Admission.tick, Admission.terminate, Admission.kill, Admission.orphan,
          Admission.deserted, Admission.yields, Admission.adopt)  # enum admission_event_type


class Walk:
    admission = None


def begin(*arguments):
    Walk.admission = Admission(*arguments)


def event_happens(kind, *arguments):
    count = len(Event._fields)
    Walk.admission.happens(kind, Event(*arguments[:count]), *arguments[count:])


def has_reached(least):
    expect("ends of a round that were hardly ever reached", [end for end in ENDS if reached[end] < least], [])


def of_walk(method):
    return lambda *arguments: method(Walk.admission, *arguments)


CALLS = {"admission": begin, "event": event_happens, "reached": has_reached, "send": of_walk(Admission.sends),
         "close": of_walk(Admission.closes), "command": of_walk(Admission.orders), "state": of_walk(Admission.look)}
