//! Runs one seed: the real relay, the devices around it, and an agenda of what they do when. After
//! every step the world waits until nothing moves any more and asks the relay for its state.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use relay_actors::push::PushServices;
use relay_actors::{ConnectionOrigin, Relay};
use relay_model::credentials::Credentials;
use relay_model::store::{DeviceFilter, RegistrationOutcome};
use relay_model::time::Timestamp;
use tokio::sync::mpsc;

use super::Run;
use super::cast::{AccountNo, Cast, DeviceNo};
use super::dice::Dice;
use super::environment::SeededEnvironment;
use super::frames::{Said, Session};
use super::line::{self, Log, Order};
use super::pipe::pipe;
use super::plan::{self, GRID};
use super::timeline_frames::SessionNo;
use super::timelines::Display;
use super::trace::{ConnectionNo, Leaving, What};
use super::weather::{Weather, WeatheredStore};
use crate::paused::SimulatedTokens;

/// Within this time the system comes to rest: nothing in it takes less but more than nothing.
const MOMENT: Duration = Duration::from_millis(1);

/// Every so many steps all accounts are asked for, not just the one that something happened to.
const FULL_PROBE: usize = 24;

/// Something on the agenda.
#[derive(Debug)]
pub(super) enum Due {
    /// The next thing that happens of itself.
    Act,
    /// A device connects, if it is not connected.
    Connect(DeviceNo),
    /// A connection registers.
    Register(ConnectionNo),
    /// A desktop answers.
    Answer {
        connection: ConnectionNo,
        id: String,
        client: DeviceNo,
        is_final: bool,
    },
    /// A replaced connection that knows nothing of it yet says something.
    Ghost(ConnectionNo),
    /// A phone renews its interest in a session.
    Renew(ConnectionNo, SessionNo),
    /// A desktop publishes what a session shows.
    Publish(ConnectionNo),
    /// A device reads again.
    ReadAgain(ConnectionNo),
    /// The network resets a half-open connection.
    Cut(ConnectionNo),
    /// A user forgets a device, perhaps once more.
    Forget(DeviceNo),
    /// A user signs out on a device, or on all of its account.
    SignOut(DeviceNo, bool),
    /// A user lets a forgotten device rejoin.
    Rejoin(DeviceNo),
    /// The database does well again.
    FairWeather,
}

/// How far a connection has come, as its device knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Fresh,
    /// `register` was sent; frames that wait behind it.
    Checking {
        waiting: usize,
        again: bool,
    },
    Registered,
}

/// A connection as its device sees it.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) device: DeviceNo,
    orders: mpsc::UnboundedSender<Order>,
    pub(super) phase: Phase,
    pub(super) reading: bool,
    pub(super) vanished: bool,
    /// Whether it always read.
    pub(super) attentive: bool,
    /// Neither side has ended it, as far as the device knows.
    pub(super) open: bool,
    /// The desktop that it last asked for, and the one that it got.
    pub(super) asked_target: Option<DeviceNo>,
    pub(super) target: Option<DeviceNo>,
    /// The session that a phone looks at.
    pub(super) interest: Option<SessionNo>,
}

/// What a device remembers beyond its connections.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) session: Option<Session>,
    pub(super) former_session: Option<Session>,
    /// The desktop that a phone wants.
    pub(super) target: Option<DeviceNo>,
    /// It is about to connect, or never will again.
    pub(super) connects: bool,
    /// What a phone waits for: id, the connection on which it may ask again, and since when.
    pub(super) asked: Vec<(String, Option<ConnectionNo>, Duration)>,
    /// What a desktop publishes.
    pub(super) display: Display,
    /// Its user has begun to forget it, and it has not rejoined.
    pub(super) forgotten: bool,
}

/// See the module.
pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) cast: Rc<Cast>,
    pub(super) relay: Relay,
    environment: Arc<SeededEnvironment>,
    store: WeatheredStore,
    pub(super) log: Rc<Log>,
    /// What is due when; each thing has an instant of its own.
    agenda: BTreeMap<Duration, Due>,
    pub(super) sides: Vec<Side>,
    pub(super) memories: Vec<Memory>,
    pub(super) serial: u64,
    pub(super) weather: Weather,
    /// Nothing happens of itself any more.
    pub(super) calm: bool,
    /// The account that a burst is about, if it is about one.
    pub(super) focus: Option<AccountNo>,
    steps: usize,
    /// The accounts that something happened to since the last probe.
    touched: Vec<AccountNo>,
}

/// Runs a seed on the current actix system, whose clock must be paused.
pub(super) async fn run(seed: u64, acts: usize) -> Run {
    let mut dice = Dice::new(seed);
    let environment = Arc::new(SeededEnvironment::new(dice.split()));
    let store = WeatheredStore::new(dice.split());
    let limits = plan::limits(&mut dice);
    let cast = Rc::new(Cast::draw(&mut dice, &*environment));
    let relay = Relay::start(
        Arc::new(limits.clone()),
        Arc::clone(&environment) as _,
        Arc::new(store.clone()),
        Arc::new(SimulatedTokens(Arc::clone(&environment) as _)),
        PushServices::default(),
    );
    let memories = cast.devices().map(|device| Memory {
        target: cast.member(device).target,
        ..Memory::default()
    });
    let memories = memories.collect();
    let log = Rc::new(Log::new(Arc::clone(&environment)));
    let mut world = World {
        dice,
        cast: Rc::clone(&cast),
        relay,
        environment,
        store,
        log,
        agenda: BTreeMap::new(),
        sides: Vec::new(),
        memories,
        serial: 0,
        weather: Weather::Fair,
        calm: false,
        focus: None,
        steps: 0,
        touched: Vec::new(),
    };
    world.enrol().await;
    world.live(acts).await;
    if world.dice.chance(20) {
        world.stop().await;
    } else {
        world.calm_down().await;
        world.desert().await;
    }
    for fault in world.environment.faults() {
        world.log.note(What::Fatal(fault.to_string()));
    }
    let trace = world.log.take();
    Run {
        seed,
        cast,
        limits,
        trace,
    }
}

impl World {
    /// Makes every device a row, as HTTP registration does.
    async fn enrol(&self) {
        for device in self.cast.devices() {
            let outcome = self.register_row(device, false).await;
            assert!(
                matches!(outcome, Ok(RegistrationOutcome::Registered(_))),
                "{outcome:?}"
            );
        }
    }

    /// Lets so many things happen.
    async fn live(&mut self, acts: usize) {
        for device in self.cast.devices() {
            let after = Duration::from_millis(self.dice.between(0..=3_000));
            self.plan_connect(device, after);
        }
        for _ in 0..acts {
            let pause = plan::pause(&mut self.dice);
            self.plan(pause, Due::Act);
            while !self.step(None).await {}
        }
    }

    /// Ends all faults, waits until what they began is over, and looks at everything.
    async fn calm_down(&mut self) {
        self.calm = true;
        self.lose_some().await;
        self.set_weather(Weather::Fair);
        for connection in self.connections(|side| side.open) {
            if self.side(connection).vanished {
                self.leave(connection, Leaving::Reset);
            } else if !self.side(connection).reading {
                self.read_again(connection);
            }
        }
        let over = self.environment.elapsed() + Duration::from_secs(480);
        while self.environment.elapsed() < over {
            self.step(Some(over)).await;
        }
        self.probe_all().await;
        let accounts = self.cast.accounts.clone();
        for (number, account) in accounts.into_iter().enumerate() {
            let listed = self.relay.devices(account, DeviceFilter::default()).await;
            let listed = listed.expect("fair weather").into_iter().map(|row| {
                let device = self.cast.find(&row.id.to_string()).expect("a row of ours");
                (device, row.status)
            });
            let listed = listed.collect();
            self.log.note(What::Listed(AccountNo(number), listed));
        }
        for device in self.cast.devices() {
            let row = self.store.inner.row(self.cast.member(device).id);
            let row = row.expect("a row of ours");
            self.log.note(What::Row(device, row.status));
        }
        self.log.note(What::Calm);
    }

    /// Has some devices leave for good while the database is away: their rows must be put right later.
    async fn lose_some(&mut self) {
        self.set_weather(Weather::Failing);
        for _ in 0..plan::leavers(&mut self.dice) {
            let present = self.connections(|side| side.open && !side.vanished);
            if let Some(connection) = self.dice.pick(&present) {
                let device = self.side(connection).device;
                self.memories[device.0].connects = true;
                let how = self.how_to_leave();
                self.leave(connection, how);
                self.settle().await;
            }
        }
        let over = self.environment.elapsed() + plan::bad_weather(&mut self.dice);
        while self.environment.elapsed() < over {
            self.step(Some(over)).await;
        }
    }

    /// Has everybody leave and all timers pass.
    async fn desert(&mut self) {
        for connection in self.connections(|side| side.open) {
            let how = self.how_to_leave();
            self.leave(connection, how);
            self.settle().await;
        }
        self.agenda.clear();
        for minutes in [2, 20, 70] {
            tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
            self.absorb();
        }
        self.agenda.clear();
        self.probe_all().await;
        self.log.note(What::Quiet);
        self.log.note(What::Deserted);
    }

    /// Drains the relay under its devices, who try to come back.
    async fn stop(&mut self) {
        self.log.note(What::StopBegan);
        self.calm = true;
        self.relay.drain("the plan");
        // A database that does not answer adds its deadline to that of the sockets.
        let mut lasts = Duration::from_secs(30);
        if plan::drain_is_hurried(&mut self.dice) {
            self.relay.hurry_drain();
        } else {
            let limits = self.relay.limits();
            lasts += limits.drain_timeout + limits.close_spread;
        }
        let over = self.environment.elapsed() + lasts;
        while self.environment.elapsed() < over {
            self.step(Some(over)).await;
        }
        // What connected in the last moment has its deadline, too.
        self.agenda.clear();
        tokio::time::sleep(Duration::from_secs(10)).await;
        self.absorb();
        self.probe_state().await;
        self.log.note(What::Stopped);
    }

    /// Does what is due next, at its time, and lets it come to rest; nothing if that is after `end`.
    /// True if it was something that happens of itself.
    async fn step(&mut self, end: Option<Duration>) -> bool {
        loop {
            self.absorb();
            let due = self.agenda.keys().next().copied();
            let until = due.into_iter().chain(end).min().expect("something is due");
            if self.environment.elapsed() >= until {
                break;
            }
            tokio::select! {
                biased;
                () = self.log.news() => {}
                () = tokio::time::sleep_until(self.environment.started() + until) => {}
            }
        }
        let now = self.environment.elapsed();
        let Some(first) = self
            .agenda
            .first_entry()
            .filter(|first| *first.key() <= now)
        else {
            return false;
        };
        let due = first.remove();
        let of_itself = matches!(due, Due::Act);
        self.perform(due).await;
        self.settle().await;
        of_itself
    }

    /// Lets everything happen that happens at this instant, and looks at it.
    async fn settle(&mut self) {
        tokio::time::sleep(MOMENT).await;
        self.absorb();
        self.steps += 1;
        if self.steps.is_multiple_of(FULL_PROBE) {
            self.probe_all().await;
        } else {
            self.touched.sort_unstable();
            self.touched.dedup();
            for account in std::mem::take(&mut self.touched) {
                self.probe_account(account).await;
            }
        }
        self.log.note(What::Quiet);
    }

    async fn probe_all(&mut self) {
        self.touched.clear();
        for account in 0..self.cast.accounts.len() {
            self.probe_account(AccountNo(account)).await;
        }
        self.probe_state().await;
    }

    async fn probe_account(&self, account: AccountNo) {
        let id = self.cast.accounts[account.0];
        let live = self.relay.live_devices(id).await.expect("the relay lives");
        let live = live.into_iter().map(|live| {
            let device = self.cast.find(&live.device.to_string());
            let since = SeededEnvironment::since_beginning(live.since);
            (device.expect("a device of ours"), live.status, since)
        });
        self.log.note(What::Live(account, live.collect()));
        for desktop in self.cast.desktops_of(account) {
            let desktop_id = self.cast.member(desktop).id;
            // A registry that ends between the question and the answer holds nothing.
            let pair = self.relay.pair_state(id, desktop_id).await.ok().flatten();
            self.log.note(What::Pair(desktop, pair));
        }
        for side in &self.sides {
            let member = *self.cast.member(side.device);
            let may_hold_much = !side.reading || side.interest.is_some();
            if member.account == account && side.open && may_hold_much {
                // A socket that ends between the question and the answer holds nothing.
                let socket = self.relay.socket_state(id, member.id).await.ok().flatten();
                let socket = socket.map(Box::new);
                self.log.note(What::Socket(side.device, socket));
            }
        }
    }

    async fn probe_state(&self) {
        let state = self.relay.state().await.expect("the relay lives");
        self.log.note(What::State(Box::new(state)));
    }

    /// Puts something on the agenda, `after` from now or at the first free instant behind that.
    pub(super) fn plan(&mut self, after: Duration, due: Due) {
        let at = self.environment.elapsed() + after;
        let mut at = GRID * at.as_millis().div_ceil(GRID.as_millis()) as u32;
        while self.agenda.contains_key(&at) {
            at += GRID;
        }
        self.agenda.insert(at, due);
    }

    /// Has a device connect later, unless it is about to.
    pub(super) fn plan_connect(&mut self, device: DeviceNo, after: Duration) {
        if !std::mem::replace(&mut self.memories[device.0].connects, true) {
            self.plan(after, Due::Connect(device));
        }
    }

    /// Opens a connection of a device: the one place where a simulated upgrade is described.
    pub(super) fn open(&mut self, device: DeviceNo) -> ConnectionNo {
        let connection = ConnectionNo(self.sides.len());
        let member = *self.cast.member(device);
        self.touch(device);
        self.log.note(What::Opened(connection, device));
        let (ours, scissors, theirs) = pipe();
        let origin = ConnectionOrigin {
            account: self.cast.accounts[member.account.0],
            credentials: Credentials::UserToken {
                expires_at: Timestamp::from_unix_micros(i64::MAX),
            },
            client_type: Some(member.kind),
            device_header: None,
            target_header: None,
            peer: None,
        };
        self.relay.accept(origin, Box::new(theirs), Bytes::new());
        let (log, cast) = (Rc::clone(&self.log), Rc::clone(&self.cast));
        let orders = line::open(connection, ours, scissors, log, cast);
        self.sides.push(Side {
            device,
            orders,
            phase: Phase::Fresh,
            reading: true,
            vanished: false,
            attentive: true,
            open: true,
            asked_target: None,
            target: None,
            interest: None,
        });
        connection
    }

    /// Has a connection say something.
    pub(super) fn say(&mut self, connection: ConnectionNo, said: Said) {
        let device = self.side(connection).device;
        self.touch(device);
        let text = said.text(device, &self.cast);
        self.log.note(What::Sent(connection, said));
        self.order(connection, Order::Send(text));
    }

    /// Orders something of a connection; one that has ended does nothing.
    pub(super) fn order(&self, connection: ConnectionNo, order: Order) {
        let _ = self.side(connection).orders.send(order);
    }

    pub(super) fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
        self.store.set(weather);
        self.log.note(What::Weather(weather));
    }

    pub(super) fn now(&self) -> Duration {
        self.environment.elapsed()
    }

    pub(super) fn touch(&mut self, device: DeviceNo) {
        self.touched.push(self.cast.member(device).account);
    }

    pub(super) fn side(&self, connection: ConnectionNo) -> &Side {
        &self.sides[connection.0]
    }

    pub(super) fn side_mut(&mut self, connection: ConnectionNo) -> &mut Side {
        &mut self.sides[connection.0]
    }

    /// The connections of which something is true, in the order of their openings.
    pub(super) fn connections(&self, is: impl Fn(&Side) -> bool) -> Vec<ConnectionNo> {
        let sides = self.sides.iter().enumerate();
        sides
            .filter(|(_, side)| is(side))
            .map(|(number, _)| ConnectionNo(number))
            .collect()
    }
}
