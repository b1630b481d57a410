# SPDX-License-Identifier: Apache-2.0
"""replay_member.py - what a member does: R-CT-49 to R-CT-57, and R-CT-5, R-CT-6, R-CT-9 and R-CT-27 as far as they are
its. Alarms are points in time. Which of several things one TICK does first is the shipped code's choice, repeated
here, and so are the words of texts."""
import re

from replay_numbers import expect

MS, SECOND = 1000000, 1000000000
NEVER = 2**64 - 1
TEXT_MAX, NO_RANK, HELLO_LANES = 511, 65535, 8
(OK, REMOTE, MISMATCH, ABORTED, TIMEOUT, INTERNAL, DENIED, VERSION_BAD, NO_RESOURCE, _, SYSTEM) = range(11)
# enum control_cause
STATES = b"connect joining helloing ready run leaving left failed".split()
CONNECT, JOINING, HELLOING, READY, RUN, LEAVING, LEFT, FAILED = range(8)
DO_CONNECT, SEND, HELLO, OPINFO, START, CLOSE, IS_LEFT, FAIL = range(8)  # enum member_action_type
(_, M_JOIN, M_GRANT, M_DENY, M_READY, M_START, M_HEARTBEAT, M_PING, M_PONG, M_PROGRESS, M_STALL, M_WAITING, M_QUERY,
 M_OPINFO, M_ABORT, M_LEAVE, M_LEFT) = range(17)  # enum control_type
JOIN = ("version_min version_max size rank kind mode latency_slots latency_window workers pid mtu timeout_ms list_hash "
        "life program boot process local_size is_launched").split()  # of its numbers
EVENT = "now number waited_ms still_ms shard lanes cause is_done text".split()


def tidy(text, most=TEXT_MAX):
    """As many whole letters as fit, '?' for what moves a cursor."""
    text = re.sub("[\x00-\x1f\x7f-\x9f]", "?", text.decode()).encode()
    return text[:most].decode(errors="ignore").encode()


def whole_seconds(span):
    return -(-span // SECOND)


class Member:
    begun = connecting = heard = spoke = looked = beaten = 0
    over_number = shards = lanes = rounds = 0
    state, cause, cause_rank = CONNECT, OK, NO_RANK
    has_begun = is_open = is_again = is_trying = False

    def __init__(self, is_v6, is_local, connect, gather, heartbeat, serial, aggregator, join, *join_texts):
        self.is_v6, self.is_local, self.connect, self.gather = is_v6, is_local, connect, gather
        self.heartbeat, self.serial, self.aggregator = heartbeat, serial, aggregator
        self.join, self.join_texts, self.rank = join, join_texts, join[1 + JOIN.index("rank")]
        self.alarms, self.ports, self.bound, self.short = {}, [], set(), set()
        self.forget()

    def forget(self):
        """What one step is to do."""
        self.deeds, self.text, self.ended = [], b"", (OK, NO_RANK)
        self.has_progress = self.has_waiting = False

    # -- what is to be done --

    def say(self, text, *parts):
        self.text = tidy(text.encode() % parts)

    def send(self, kind, *fields):
        self.deeds.append([[kind, *fields]])  # a list of what is recorded; of what is not said numbers alone

    def do(self, what, shard=0, lanes=0, serial=0, number=0):
        self.deeds.append([what, shard, lanes, serial, number])

    def end(self, cause, rank=NO_RANK, is_own=True):
        if is_own and self.is_open:
            self.deeds.append([[M_ABORT, cause, rank, 0], self.text])
        self.do(CLOSE)
        self.do(FAIL)
        self.ended = self.cause, self.cause_rank = cause, rank
        self.state = FAILED

    def is_due(self, now, alarm):
        return now >= self.alarms.get(alarm, NEVER)

    def is_running(self):
        return self.state in (RUN, LEAVING)

    # -- R-CT-9 --

    def beat(self):
        return min(self.heartbeat // 5, 2 * SECOND)

    def limit(self):
        return self.heartbeat + 2 * self.beat()

    def silent(self, now):
        """It has been: silence blames nobody who never had a connection to speak on."""
        if not self.is_open:
            return
        self.say("the aggregator at %b has been silent for %d ms", self.aggregator, self.heartbeat // MS)
        if self.state == JOINING:
            self.say("the aggregator at %b has been silent for %d ms, although it takes connections: is it stopped?",
                     self.aggregator, self.heartbeat // MS)
        elif now < self.heard + self.limit():
            self.say("the aggregator at %b has been silent for %d ms over TCP, although it answers over UDP",
                     self.aggregator, self.heartbeat // MS)
        self.end(TIMEOUT if self.state == JOINING else REMOTE)

    # -- R-CT-51 --

    def attempts_begin(self, now):
        self.state, self.connecting = CONNECT, now
        self.alarms["unreached"] = now + self.connect + 5 * SECOND

    def attempt_again(self, now):
        self.alarms["attempt"] = now + max(MS, min(now - self.begun, 250 * MS))

    def refused(self, now, why):
        self.is_trying = False
        if self.state != CONNECT:
            return
        if now < self.connecting + self.connect:
            self.attempt_again(now)
            return
        self.say("no aggregator at %b: %b (tried for %d s%b)", self.aggregator, why if why != [] else b"no answer",
                 self.connect // SECOND, b", after an earlier one had ended" if self.is_again else b"")
        self.end(SYSTEM)

    def connected(self, now):
        """R-CT-50: JOIN says what is left, but for 0, which would say that there is no limit."""
        self.is_trying = False
        if self.state != CONNECT:
            return
        left = max((self.begun + self.gather - now) // MS, 1)
        join = list(self.join)
        join[1 + JOIN.index("timeout_ms")] = min(left, 2**32 - 1)
        self.deeds.append([join, *self.join_texts])
        self.alarms.pop("attempt", None)
        self.alarms.pop("unreached", None)
        self.is_open, self.state = True, JOINING
        self.heard = self.spoke = self.beaten = now
        self.alarms["beat"] = now + self.beat()

    # -- R-CT-52 --

    def full(self):
        return max(self.lanes, HELLO_LANES)

    def hello(self, shard, lanes):
        self.serial = (self.serial + 1) % 2**32
        self.do(HELLO, shard, lanes, self.serial)

    def hello_round(self, now):
        self.rounds += 1
        for shard in range(self.shards):
            if shard not in self.bound:
                self.hello(shard, self.full())
                if self.rounds >= 6 and self.full() > HELLO_LANES:
                    self.hello(shard, HELLO_LANES)
        self.alarms["hello"] = now + 100 * MS

    def granted(self, now, lanes, heartbeat_ms, shards):
        self.heartbeat = heartbeat_ms * MS
        self.alarms["beat"] = self.beaten + self.beat()
        self.ports, self.shards = shards[::2], len(shards) // 2
        self.lanes = min(lanes, *shards[1::2]) // 4 * 4
        if not self.lanes:
            self.say("the path to the aggregator at %b is too narrow for one packet", self.aggregator)
            self.end(SYSTEM)
            return
        self.state = HELLOING
        self.hello_round(now)

    def welcome(self, now, shard, lanes):
        if shard >= self.shards:
            return
        self.heard = now
        if self.state != HELLOING:
            return
        (self.bound if lanes >= self.full() else self.short).add(shard)
        if len(self.bound) == self.shards:
            self.send(M_READY, self.lanes)
            self.state = READY
            self.alarms.pop("hello")

    def unbound(self):
        return min(set(range(self.shards)) - self.bound)

    def not_welcome(self):
        """The first shard that has not answered is told."""
        size, port = 24 + 4 * self.full(), self.ports[self.unbound()]
        if self.unbound() in self.short:
            self.say("path MTU is below %d: UDP datagrams of %d bytes to the aggregator at %b, port %d, get no answer, "
                     "short ones do: set the same MTU all the way, or cap packets (tallyd --lanes)",
                     size + (48 if self.is_v6 else 28), size, self.aggregator, port)
        else:
            self.say("TCP to %b works, UDP to its port %d does not (firewall?)", self.aggregator, port)
        self.end(SYSTEM)

    # -- R-CT-50 --

    def late(self):
        if self.state == CONNECT:
            self.say("no answer from an aggregator at %b", self.aggregator)
            self.end(SYSTEM)
        elif self.state in (JOINING, READY):
            self.say("the aggregator at %b did not %b the job within %d s", self.aggregator,
                     b"grant" if self.state == JOINING else b"start", whole_seconds(self.gather))
            self.end(TIMEOUT)
        elif self.state == HELLOING:
            self.not_welcome()

    def time_is_over(self, now):
        if self.state != HELLOING or self.rounds >= 20:
            self.late()
            return
        self.say("the job did not start within %d s: the last rank has only just come", self.gather // SECOND)
        self.end(TIMEOUT)

    # -- messages --

    def does_not_fit(self, kind):
        self.say("the aggregator at %b sent message %d in state %b", self.aggregator, kind,
                 STATES[self.state])
        self.end(INTERNAL)

    def told_the_end(self, kind, now, cause, rank, is_ending, text):
        self.say("%b", text)
        if kind == M_ABORT or not self.is_local or not is_ending or self.state != JOINING:
            self.end(cause or INTERNAL, rank, False)
            return
        # R-CT-27
        self.say("%b: it is of an earlier life, the next one's is awaited", text)
        self.has_progress, self.is_open, self.is_again = True, False, True
        self.do(CLOSE)
        self.alarms.pop("beat")
        self.attempts_begin(now)
        self.attempt_again(now)

    def started(self, lanes):
        if not lanes or lanes % 4 or lanes > self.lanes:
            self.does_not_fit(M_START)
            return
        self.lanes, self.state = lanes, RUN
        self.alarms.pop("over")
        self.do(START, lanes=lanes)

    def waiting(self, number, missing):
        """All have called it, and no ABORT has come: it has ended well."""
        self.has_waiting = True
        if number == self.over_number and not missing:
            self.alarms.pop("verdict", None)

    def left(self):
        self.do(CLOSE)
        self.do(IS_LEFT)
        self.state = LEFT

    def message(self, now, lanes, message, *texts):
        kind, *fields = message
        self.heard = self.spoke = now
        if kind in (M_HEARTBEAT, M_PONG):
            return
        if kind == M_PING:
            self.send(M_PONG, *fields)
        elif kind == M_PROGRESS:
            self.say("%b", *texts)
            self.has_progress = True
        elif kind in (M_DENY, M_ABORT):
            self.told_the_end(kind, now, *fields, *texts)
        elif kind == M_QUERY and self.is_running():
            self.do(OPINFO, serial=fields[0], number=fields[1])
        elif kind == M_GRANT and self.state == JOINING:
            self.granted(now, lanes, fields[2], texts[1])
        elif kind == M_START and self.state == READY:
            self.started(*fields)
        elif kind == M_WAITING and self.is_running():
            self.waiting(fields[0], fields[2])
        elif kind == M_LEFT and self.state == LEAVING:
            self.left()
        else:
            self.does_not_fit(kind)

    # -- what happens here --

    def closed(self, now, text):
        if self.state == CONNECT:
            self.refused(now, text)
            return
        self.is_trying = False
        self.say("the aggregator at %b is lost: %b", self.aggregator,
                 text if text != [] else b"it closed the connection")
        self.end(REMOTE, is_own=False)

    def error(self, _, cause, text, otherwise=b"an error"):
        self.say("%b", text if text != [] else otherwise)
        self.end(cause, self.rank)

    def abort(self, now, text):
        self.error(now, ABORTED, text, b"the user aborted")

    def finalize(self, now, submitted, text):
        if self.state < RUN:
            self.error(now, ABORTED, text, b"finalized before the job had started")
        elif self.state == RUN:
            self.send(M_LEAVE, submitted)
            self.state = LEAVING

    def stalled(self, _, number, waited_ms, still_ms, is_expired=0):
        """R-CT-55."""
        if self.is_running():
            self.send(M_STALL, number, waited_ms, still_ms, is_expired)

    def expired(self, now, number, waited_ms, still_ms):
        """R-CT-56."""
        self.stalled(now, number, waited_ms, still_ms, 1)
        if self.is_running() and not ("verdict" in self.alarms and self.over_number == number):
            self.over_number = number
            self.alarms["verdict"] = now + 2 * SECOND

    # -- the clock --

    def connect_tick(self, now):
        if not self.has_begun:
            self.has_begun, self.begun = True, now
            self.alarms.update(over=now + self.gather + 500 * MS, attempt=now)
            self.attempts_begin(now)
        if self.is_due(now, "attempt"):
            self.alarms.pop("attempt")
            self.do(DO_CONNECT)
            expect("R-CT-51: whether an attempt is under way", self.is_trying, False)
            self.is_trying = True
        if self.is_due(now, "unreached") or self.is_due(now, "over"):
            self.late()

    def connection_tick(self, now, is_done, has_slept):
        if has_slept:
            self.heard = self.spoke = now
        if now >= min(self.heard + self.limit(), self.spoke + 3 * self.limit()):
            self.silent(now)
            return
        if self.is_due(now, "beat"):
            self.send(M_HEARTBEAT)
            self.beaten = now
            self.alarms["beat"] = now + self.beat()
        if self.is_due(now, "over"):
            self.time_is_over(now)
            return
        if is_done:
            self.alarms.pop("verdict", None)
        if self.is_due(now, "verdict"):
            self.say("the deadline of operation %d is over, and the aggregator at %b has not said in 2 s who is late",
                     self.over_number, self.aggregator)
            self.end(TIMEOUT)
        elif self.is_due(now, "hello"):
            if self.rounds == 100 or self.rounds >= 20 and self.unbound() in self.short:
                self.not_welcome()
            else:
                self.hello_round(now)

    def tick(self, now, is_done):
        has_slept = now >= self.looked + self.heartbeat // 4
        self.looked = now
        if self.state == CONNECT:
            self.connect_tick(now)
        else:
            self.connection_tick(now, is_done, has_slept)

    # -- what it has done --

    def happens(self, event, *about):
        self.forget()
        if self.state not in (LEFT, FAILED):
            getattr(self, event)(*about)
        if self.state in (LEFT, FAILED):
            self.alarms = {}

    def does(self, *deeds):
        expect("what is to be done", list(deeds), self.deeds[:len(deeds)])
        del self.deeds[:len(deeds)]

    def look(self, state, cause, cause_rank, is_open, is_again, heard, spoke, since, over_number, ended_cause,
             ended_rank, has_progress, has_waiting, wake, text, name):
        expect("what is not done", [], self.deeds)
        expect("text, state, ends, wake-up, what is to be told of, and whether it has a connection, not the first",
               (text, state, name, ended_cause, ended_rank, cause, cause_rank, wake, has_progress, has_waiting, is_open,
                is_again),
               (self.text, self.state, STATES[self.state], *self.ended, self.cause, self.cause_rank,
                min(self.alarms.values(), default=NEVER), self.has_progress, self.has_waiting, self.is_open,
                self.is_again))
        if self.is_open:
            expect("when it was heard", (heard, spoke), (self.heard, self.spoke))
        if self.state == CONNECT:
            expect("since when attempts go on", since, self.connecting)
        if "verdict" in self.alarms:
            expect("whose deadline is over", over_number, self.over_number)


EVENTS = [(name, [EVENT.index(field) for field in ("now", *fields)]) for name, *fields in (
    ("connected",), ("refused", "text"), ("message", "lanes"), ("closed", "text"), ("welcome", "shard", "lanes"),
    ("stalled", "number", "waited_ms", "still_ms"), ("expired", "number", "waited_ms", "still_ms"),
    ("finalize", "number", "text"), ("abort", "text"), ("error", "cause", "text"),
    ("tick", "is_done"))]  # enum member_event_type, and what each is about


class Walk:
    member = None


def begin(*arguments):
    Walk.member = Member(*arguments)


def meets(kind, *event):
    name, fields = EVENTS[kind]
    Walk.member.happens(name, *[event[at] for at in fields], *event[len(EVENT):])


def does(*arguments):
    Walk.member.does(*arguments)


def sends(*message):
    Walk.member.does(list(message))


def did(*arguments):
    Walk.member.look(*arguments)


CALLS = {"member": begin, "meets": meets, "does": does, "sends": sends, "did": did}
