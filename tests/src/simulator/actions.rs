//! What devices do, of themselves or because it is on the agenda.

use std::time::Duration;

use relay_model::limits::REQUEST_ID_BYTES;

use super::cast::{AccountNo, DeviceNo};
use super::frames::Said;
use super::line::Order;
use super::plan::{self, Act};
use super::trace::{ConnectionNo, Leaving, What};
use super::weather::Weather;
use super::world::{Due, Phase, Side, World};

/// Frames that a device sends while its registration is checked; fewer than may wait (REG-1).
const MAY_WAIT: usize = 8;

/// Parts of a burst run apart by up to so many turns of the scheduler.
const TURNS: u64 = 8;

/// How long after its request a phone asks the same again.
const IMPATIENCE: Duration = Duration::from_secs(20);

impl Side {
    pub(super) fn can_talk(&self) -> bool {
        let room = match self.phase {
            Phase::Fresh => false,
            Phase::Checking { waiting, .. } => waiting < MAY_WAIT,
            Phase::Registered => true,
        };
        self.open && !self.vanished && room
    }

    pub(super) fn is_settled(&self) -> bool {
        self.can_talk() && self.phase == Phase::Registered
    }
}

impl World {
    pub(super) async fn perform(&mut self, due: Due) {
        match due {
            Due::Act => {
                let act = plan::act(&mut self.dice);
                if act == Act::Burst {
                    if self.dice.chance(70) {
                        let account = self.dice.between(0..=self.cast.accounts.len() as u64 - 1);
                        self.focus = Some(AccountNo(account as usize));
                    }
                    for act in plan::burst(&mut self.dice) {
                        self.act(act);
                        for _ in 0..self.dice.between(0..=TURNS) {
                            tokio::task::yield_now().await;
                        }
                    }
                    self.focus = None;
                } else {
                    self.act(act);
                }
            }
            Due::Connect(device) => {
                self.memories[device.0].connects = false;
                let is_connected =
                    |side: &Side| side.device == device && side.open && !side.vanished;
                if self.connections(is_connected).is_empty() {
                    self.connect(device);
                }
            }
            Due::Register(connection) => {
                if self.side(connection).open && !self.side(connection).vanished {
                    self.register(connection);
                }
            }
            Due::Answer {
                connection,
                id,
                client,
                is_final,
            } => self.answer(connection, id, client, is_final),
            Due::Ghost(connection) => self.ghost(connection),
            Due::Renew(connection, session) => self.renew(connection, session),
            Due::Publish(connection) => self.publish(connection),
            Due::ReadAgain(connection) => {
                if self.side(connection).open && !self.side(connection).vanished {
                    self.read_again(connection);
                }
            }
            Due::Cut(connection) => {
                if self.side(connection).open {
                    self.leave(connection, Leaving::Reset);
                }
            }
            Due::Forget(device) => self.forget(device),
            Due::SignOut(device, all) => self.sign_out(device, all),
            Due::Rejoin(device) => self.rejoin(device),
            Due::FairWeather => self.set_weather(Weather::Fair),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Ask => self.ask(),
            Act::AskAgain => self.ask_again(),
            Act::AskOversize => self.ask_oversize(),
            Act::AskForeign => self.ask_foreign(),
            Act::Flood => self.flood(),
            Act::Note => self.send_note(),
            Act::Interest => self.take_interest(),
            Act::Publish => self.publish_something(),
            Act::Heartbeat => {
                if let Some(connection) = self.pick(Side::can_talk) {
                    self.talk(connection, Said::Heartbeat);
                }
            }
            Act::Leave => {
                if let Some(connection) = self.pick(|side| side.open && !side.vanished) {
                    let how = self.how_to_leave();
                    self.leave(connection, how);
                }
            }
            Act::Vanish => self.vanish(),
            Act::Stall => {
                let looks = self.dice.chance(60);
                let fits =
                    |side: &Side| side.open && side.reading && (!looks || side.interest.is_some());
                if let Some(connection) = self.pick(fits) {
                    self.stall(connection);
                }
            }
            Act::Replace => self.replace(),
            Act::Return => self.return_early(),
            Act::RegisterAgain => self.register_again(),
            Act::Forget => self.forget_something(),
            Act::SignOut => self.sign_out_somewhere(),
            Act::Weather => {
                if self.weather == Weather::Fair {
                    let weather = if self.dice.chance(60) {
                        Weather::Slow
                    } else {
                        Weather::Failing
                    };
                    self.set_weather(weather);
                    let over = plan::bad_weather(&mut self.dice);
                    self.plan(over, Due::FairWeather);
                }
            }
            Act::Burst => {}
        }
    }

    pub(super) fn pick(&mut self, is: impl Fn(&Side) -> bool) -> Option<ConnectionNo> {
        let in_focus = |side: &Side| {
            let account = self.cast.member(side.device).account;
            self.focus.is_none_or(|focus| focus == account)
        };
        let connections = self.connections(|side| in_focus(side) && is(side));
        self.dice.pick(&connections)
    }

    /// Has a device that is away, and means to come back, do so.
    fn return_early(&mut self) {
        let is_away = |device: &DeviceNo| {
            let is_open = |side: &Side| side.device == *device && side.open && !side.vanished;
            self.memories[device.0].connects && self.connections(is_open).is_empty()
        };
        let in_focus = |device: &DeviceNo| {
            let account = self.cast.member(*device).account;
            self.focus.is_none_or(|focus| focus == account)
        };
        let away: Vec<_> = self
            .cast
            .devices()
            .filter(in_focus)
            .filter(is_away)
            .collect();
        if let Some(device) = self.dice.pick(&away) {
            self.connect(device);
        }
    }

    pub(super) fn pick_phone(&mut self, is: impl Fn(&Side) -> bool) -> Option<ConnectionNo> {
        let cast = std::rc::Rc::clone(&self.cast);
        self.pick(|side| is(side) && !cast.is_desktop(side.device))
    }

    pub(super) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Sends a frame that waits if a registration is under way.
    fn talk(&mut self, connection: ConnectionNo, said: Said) {
        if let Phase::Checking { waiting, .. } = &mut self.side_mut(connection).phase {
            *waiting += 1;
        }
        self.say(connection, said);
    }

    fn send_request(&mut self, connection: ConnectionNo, id: String, serial: u64) {
        let pad = plan::pad(&mut self.dice);
        self.send_padded_request(connection, id, serial, pad);
    }

    fn send_padded_request(
        &mut self,
        connection: ConnectionNo,
        id: String,
        serial: u64,
        pad: usize,
    ) {
        let (device, now) = (self.side(connection).device, self.now());
        let mut heard_as = id.clone();
        heard_as.truncate(REQUEST_ID_BYTES);
        let asked = &mut self.memories[device.0].asked;
        if !asked.iter().any(|(known, ..)| *known == heard_as) {
            asked.push((heard_as, Some(connection), now));
        }
        self.talk(connection, Said::Request { id, serial, pad });
    }

    fn ask(&mut self) {
        if let Some(connection) = self.pick_phone(Side::can_talk) {
            let serial = self.next_serial();
            self.send_request(connection, format!("r{serial}"), serial);
        }
    }

    fn flood(&mut self) {
        let deaf: Vec<_> = self
            .connections(|side| side.open && !side.reading)
            .into_iter()
            .map(|connection| self.side(connection).device)
            .collect();
        let asks_deaf: Vec<_> = self
            .connections(Side::is_settled)
            .into_iter()
            .filter(|connection| {
                let target = self.memories[self.side(*connection).device.0].target;
                target.is_some_and(|target| deaf.contains(&target))
            })
            .collect();
        if let Some(connection) = self.dice.pick(&asks_deaf) {
            for _ in 0..plan::FLOOD {
                let serial = self.next_serial();
                self.send_padded_request(connection, format!("r{serial}"), serial, plan::LARGE);
            }
        }
    }

    /// Only of a phone that has lost nothing: to another one, what it waits for may be over already.
    fn ask_again(&mut self) {
        let now = self.now();
        let patient = |side: &Side| side.is_settled() && side.attentive;
        if let Some(connection) = self.pick_phone(patient) {
            let asked = &self.memories[self.side(connection).device.0].asked;
            let recent: Vec<_> = asked
                .iter()
                .filter(|(_, on, at)| *on == Some(connection) && now < *at + IMPATIENCE)
                .map(|(id, ..)| id.clone())
                .collect();
            if let Some(id) = self.dice.pick(&recent) {
                let serial = self.next_serial();
                self.send_request(connection, id, serial);
            }
        }
    }

    fn ask_oversize(&mut self) {
        if let Some(connection) = self.pick_phone(Side::can_talk) {
            let serial = self.next_serial();
            let id = format!("o{serial}-{}", "x".repeat(REQUEST_ID_BYTES));
            self.send_request(connection, id, serial);
        }
    }

    fn ask_foreign(&mut self) {
        let Some(connection) = self.pick_phone(Side::is_settled) else {
            return;
        };
        let phone = self.side(connection).device;
        let target = self.memories[phone.0].target;
        let own: Vec<_> = self.memories[phone.0].asked.clone();
        let account = self.cast.member(phone).account;
        let others = self
            .cast
            .of_account(account)
            .filter(|other| *other != phone && self.memories[other.0].target == target);
        let ids: Vec<_> = others
            .flat_map(|other| &self.memories[other.0].asked)
            .map(|(id, ..)| id.clone())
            .filter(|id| id.len() < REQUEST_ID_BYTES && !own.iter().any(|(own, ..)| own == id))
            .collect();
        if let Some(id) = self.dice.pick(&ids) {
            let serial = self.next_serial();
            self.send_request(connection, id, serial);
        }
    }

    fn send_note(&mut self) {
        if let Some(connection) = self.pick(Side::is_settled) {
            let serial = self.next_serial();
            let pad = plan::pad(&mut self.dice);
            self.say(connection, Said::Note { serial, pad });
        }
    }

    fn answer(&mut self, connection: ConnectionNo, id: String, client: DeviceNo, is_final: bool) {
        let mut connection = connection;
        if !self.side(connection).open {
            // Some desktops answer on their next connection what was asked on the last (RPC-2).
            let desktop = self.side(connection).device;
            let next = self.pick(|side| side.device == desktop && side.is_settled());
            match next.filter(|_| self.dice.chance(30)) {
                Some(next) => connection = next,
                None => return,
            }
        }
        if self.side(connection).can_talk() {
            let client = if self.dice.chance(10) {
                let account = self.cast.member(client).account;
                let others: Vec<_> = self.cast.of_account(account).collect();
                self.dice.pick(&others).unwrap_or(client)
            } else {
                client
            };
            let serial = self.next_serial();
            let pad = plan::pad(&mut self.dice);
            let answer = Said::Answer {
                id,
                serial,
                is_final,
                client,
                pad,
            };
            self.talk(connection, answer);
        }
    }

    /// What a connection says that does not know that it is none any more.
    fn ghost(&mut self, connection: ConnectionNo) {
        let side = self.side(connection);
        if !side.is_settled() {
            return;
        }
        let serial = self.next_serial();
        let is_desktop = self.cast.is_desktop(self.side(connection).device);
        match self.dice.between(0..=4) {
            0 => self.say(connection, Said::Heartbeat),
            1 | 2 if is_desktop => self.publish(connection),
            2 => self.look(connection),
            1 => self.send_request(connection, format!("r{serial}"), serial),
            _ => self.say(connection, Said::Note { serial, pad: 0 }),
        }
    }

    fn connect(&mut self, device: DeviceNo) -> ConnectionNo {
        let connection = self.open(device);
        if self.dice.chance(4) && !self.calm {
            // Some take their time, and some of those too much of it (TR-9).
            let after = Duration::from_millis(self.dice.between(1_000..=20_000));
            self.plan(after, Due::Register(connection));
        } else {
            self.register(connection);
        }
        connection
    }

    /// Registers, with a session if the device has one and likes to.
    pub(super) fn register(&mut self, connection: ConnectionNo) {
        let side = self.side(connection);
        if !side.open || matches!(side.phase, Phase::Checking { .. }) {
            return;
        }
        let (device, again) = (side.device, side.phase == Phase::Registered);
        let memory = &self.memories[device.0];
        let resume = match self.dice.between(0..=99) {
            0..60 => memory.session.clone(),
            60..64 => memory.former_session.clone(),
            _ => None,
        };
        let target = memory.target;
        let side = self.side_mut(connection);
        side.phase = Phase::Checking { waiting: 0, again };
        side.asked_target = target;
        self.say(connection, Said::Register { target, resume });
    }

    fn register_again(&mut self) {
        let Some(connection) = self.pick(Side::is_settled) else {
            return;
        };
        let device = self.side(connection).device;
        if !self.cast.is_desktop(device) {
            let desktops: Vec<_> = self
                .cast
                .desktops_of(self.cast.member(device).account)
                .collect();
            let none = self.dice.chance(8);
            let target = self.dice.pick(&desktops).filter(|_| !none);
            let memory = &mut self.memories[device.0];
            memory.target = target;
            // The same id at another desktop is another request.
            for (_, on, _) in &mut memory.asked {
                *on = None;
            }
        }
        self.register(connection);
    }

    fn replace(&mut self) {
        let Some(old) = self.pick(Side::is_settled) else {
            return;
        };
        let device = self.side(old).device;
        if self.side(old).reading && self.dice.chance(50) {
            self.stall(old);
        }
        for _ in 0..self.dice.between(0..=3) {
            let after = Duration::from_millis(self.dice.between(8..=6_000));
            self.plan(after, Due::Ghost(old));
        }
        self.connect(device);
    }

    fn stall(&mut self, connection: ConnectionNo) {
        let side = self.side_mut(connection);
        side.reading = false;
        side.attentive = false;
        self.log.note(What::Stalled(connection));
        self.order(connection, Order::Stall);
        let over = plan::stall(&mut self.dice);
        self.plan(over, Due::ReadAgain(connection));
        self.pile_up(connection);
    }

    pub(super) fn read_again(&mut self, connection: ConnectionNo) {
        let side = self.side_mut(connection);
        let device = side.device;
        side.reading = true;
        self.touch(device);
        self.log.note(What::ReadsAgain(connection));
        self.order(connection, Order::Read);
    }

    fn vanish(&mut self) {
        let Some(connection) = self.pick(|side| side.open && side.reading) else {
            return;
        };
        let side = self.side_mut(connection);
        side.reading = false;
        side.attentive = false;
        side.vanished = true;
        let device = side.device;
        self.log.note(What::Vanished(connection));
        self.order(connection, Order::Stall);
        if self.dice.chance(60) {
            let after = plan::half_open(&mut self.dice);
            self.plan(after, Due::Cut(connection));
        }
        let absence = plan::absence(&mut self.dice);
        self.plan_connect(device, absence);
    }

    pub(super) fn how_to_leave(&mut self) -> Leaving {
        let ways = [Leaving::Close, Leaving::EndOfStream, Leaving::Reset];
        self.dice.pick(&ways).unwrap_or(Leaving::Close)
    }

    /// Ends a connection, and has its device come back later unless it has another one.
    pub(super) fn leave(&mut self, connection: ConnectionNo, how: Leaving) {
        self.log.note(What::Left(connection, how));
        self.order(
            connection,
            match how {
                Leaving::Close => Order::Close,
                Leaving::EndOfStream => Order::Drop,
                Leaving::Reset => Order::Cut,
            },
        );
        self.closed(connection);
    }

    /// Takes note that a connection has ended.
    pub(super) fn closed(&mut self, connection: ConnectionNo) {
        let side = self.side_mut(connection);
        let device = side.device;
        if std::mem::replace(&mut side.open, false) {
            self.touch(device);
            let absence = plan::absence(&mut self.dice);
            self.plan_connect(device, absence);
        }
    }
}
