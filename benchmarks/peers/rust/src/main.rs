//! The protocols for stateright, one `u64` a state. Usage: peers PROTOCOL N bfs|dfs
use stateright::{Checker, Model, Property};

/// A protocol over packed states; an action is the state that it leads to.
struct Packed {
    n: u64,
    good: fn(u64, u64) -> bool,
    expand: fn(u64, u64, &mut Vec<u64>),
}

impl Model for Packed {
    type State = u64;
    type Action = u64;

    fn init_states(&self) -> Vec<u64> {
        vec![0]
    }

    fn actions(&self, state: &u64, actions: &mut Vec<u64>) {
        (self.expand)(self.n, *state, actions);
    }

    fn next_state(&self, _: &u64, action: u64) -> Option<u64> {
        Some(action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("good", |model: &Packed, state| (model.good)(model.n, *state))]
    }
}

fn field(state: u64, place: u64) -> u64 {
    state >> place & 3
}

fn with(state: u64, place: u64, value: u64) -> u64 {
    state & !(3 << place) | value << place
}

/// A manager's phase in two bits: 0 works, 1 prepared, 2 committed, 3 aborted; then whom the coordinator has heard of,
/// who has reported, and the decision: 0, 1 (commit) or 2 (abort).
mod two_phase {
    use super::{field, with};

    pub fn good(n: u64, s: u64) -> bool {
        let any = |phase| (0..n).any(|i| field(s, 2 * i) == phase);
        !(any(2) && any(3))
    }

    pub fn expand(n: u64, s: u64, out: &mut Vec<u64>) {
        let decision = s >> (4 * n);
        let everybody = ((1 << n) - 1) << (2 * n);
        if decision == 0 {
            if s & everybody == everybody {
                out.push(s | 1 << (4 * n));
            }
            out.push(s | 2 << (4 * n));
        }
        for i in 0..n {
            let sent = 1 << (3 * n + i);
            if decision == 0 && s & sent != 0 {
                out.push(s | 1 << (2 * n + i));
            }
            if field(s, 2 * i) == 0 {
                out.push(with(s, 2 * i, 1) | sent);
                out.push(with(s, 2 * i, 3));
            }
            if decision != 0 {
                out.push(with(s, 2 * i, decision + 1));
            }
        }
    }
}

/// 3 acceptors, 2 values, n ballots. `JOINED`, `VOTED`: 0 or a ballot + 1; `PROPOSAL`: 0 or a value; `PROMISE`: 0 or
/// 1 + the acceptor's `VOTED` when it was sent; then a bit for each ballot prepared, and for each vote.
mod paxos {
    use super::{field, with};
    const JOINED: u64 = 0;
    const VOTED: u64 = 6;
    const PROPOSAL: u64 = 12;
    const PROMISE: u64 = 18;
    const PREPARED: u64 = 36;
    const ACCEPTED: u64 = 39;

    pub fn good(n: u64, s: u64) -> bool {
        let chosen = |v| {
            (0..n).any(|b| {
                field(s, PROPOSAL + 2 * b) == v && (0..3).map(|a| s >> (ACCEPTED + 3 * a + b) & 1).sum::<u64>() > 1
            })
        };
        !(chosen(1) && chosen(2))
    }

    fn safe(s: u64, b: u64, v: u64) -> bool {
        let promise = |a: u64| field(s, PROMISE + 2 * (3 * (a % 3) + b));
        (0..3).any(|a| {
            let (x, y) = (promise(a), promise(a + 1));
            x > 0 && y > 0 && (x.max(y) == 1 || field(s, PROPOSAL + 2 * (x.max(y) - 2)) == v)
        })
    }

    pub fn expand(n: u64, s: u64, out: &mut Vec<u64>) {
        for b in 0..n {
            out.push(s | 1 << (PREPARED + b));
            let proposed = field(s, PROPOSAL + 2 * b) > 0;
            if !proposed {
                out.extend((1..3).filter(|v| safe(s, b, *v)).map(|v| with(s, PROPOSAL + 2 * b, v)));
            }
            for a in 0..3 {
                let joined = field(s, JOINED + 2 * a);
                let joins = with(s, JOINED + 2 * a, b + 1);
                if s >> (PREPARED + b) & 1 == 1 && b + 1 > joined {
                    out.push(with(joins, PROMISE + 2 * (3 * a + b), field(s, VOTED + 2 * a) + 1));
                }
                if proposed && b + 1 >= joined {
                    out.push(with(joins, VOTED + 2 * a, b + 1) | 1 << (ACCEPTED + 3 * a + b));
                }
            }
        }
    }
}

/// A node: 0 asleep, 1 candidate, 2 lost, 3 leader; then, in four bits, where its id goes: 0, or a node + 1.
mod ring {
    use super::{field, with};

    pub fn good(n: u64, s: u64) -> bool {
        let count = |standing| (0..n).filter(|i| field(s, 2 * i) == standing).count() as u64;
        count(3) == 0 || count(2) == n - 1
    }

    pub fn expand(n: u64, s: u64, out: &mut Vec<u64>) {
        for i in 0..n {
            let place = 2 * n + 4 * i;
            let goes = |state: u64, to: u64| state & !(15 << place) | to << place;
            if field(s, 2 * i) == 0 {
                out.push(goes(with(s, 2 * i, 1), (i + 1) % n + 1));
                out.push(with(s, 2 * i, 2));
            }
            let to = s >> place & 15;
            if to == 0 || field(s, 2 * (to - 1)) == 0 {
                continue;
            }
            let (at, passed) = (to - 1, goes(s, to % n + 1));
            out.push(match field(s, 2 * at) {
                2 => passed,
                _ if i < at => with(passed, 2 * at, 2),
                _ if i > at => goes(s, 0),
                _ => with(goes(s, 0), 2 * at, 3),
            });
        }
    }
}

/// A philosopher: 0 thinks, 1 has one fork, 2 eats. A state without steps is bad.
mod philosophers {
    use super::field;

    fn takes(n: u64, s: u64, i: u64) -> bool {
        let last = i == n - 1;
        let fork = if last == (field(s, 2 * i) == 0) { (i + 1) % n } else { i };
        let before = (fork + n - 1) % n;
        field(s, 2 * fork) <= (fork == n - 1) as u64 && field(s, 2 * before) <= (before != n - 1) as u64
    }

    pub fn good(n: u64, s: u64) -> bool {
        let seat = |i: u64| field(s, 2 * (i % n));
        (0..n).all(|i| seat(i) < 2 || seat(i + 1) < 2) && (0..n).any(|i| seat(i) == 2 || takes(n, s, i))
    }

    pub fn expand(n: u64, s: u64, out: &mut Vec<u64>) {
        for i in 0..n {
            if field(s, 2 * i) == 2 {
                out.push(s & !(3 << (2 * i)));
            } else if takes(n, s, i) {
                out.push(s + (1 << (2 * i)));
            }
        }
    }
}

fn report(checker: impl Checker<Packed>) {
    let checker = checker.join();
    checker.assert_properties();
    println!("{} states", checker.unique_state_count());
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let n = words[2].parse().expect("a number");
    let packed = match words[1].as_str() {
        "two_phase" => Packed { n, good: two_phase::good, expand: two_phase::expand },
        "paxos" => Packed { n, good: paxos::good, expand: paxos::expand },
        "ring" => Packed { n, good: ring::good, expand: ring::expand },
        "philosophers" => Packed { n, good: philosophers::good, expand: philosophers::expand },
        other => panic!("{other}: no such protocol"),
    };
    let builder = packed.checker().threads(1);
    if words[3] == "dfs" { report(builder.spawn_dfs()) } else { report(builder.spawn_bfs()) }
}
