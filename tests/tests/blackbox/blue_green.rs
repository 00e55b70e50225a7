//! A deploy under load: two relays on one database, a switch in front of them, and the old one drains
//! (DR-5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;
use relay_tests::blackbox::{
    Account, Backend, DEADLINE, Device, Frame, Relay, Site, Socket, Switch,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What the drain is given: with requests that nobody answers it is used up.
const SETTINGS: [(&str, &str); 2] = [("drain.timeout", "2s"), ("drain.close_spread", "2s")];
/// A request of this method is never answered.
const HOLD: &str = "hold";
/// Every so many phones hold a request open when the old relay goes.
const HOLDING: usize = 10;
/// What a phone asks at the old relay at most. On a fast machine more would pass the rate limit's
/// burst, behind which a request gets no answer (TR-6).
const ASKED: usize = 200;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Answered,
    Reconnecting,
    Closed,
}

/// The way to whichever relay the switch sends a device to, and what is known there.
struct Front {
    switch: Switch,
    green: Relay,
    green_id: String,
    /// Told when the devices may leave.
    over: watch::Receiver<bool>,
    /// Devices that are registered at the new relay, and phones that had an answer there.
    arrived: mpsc::UnboundedSender<(&'static str, String)>,
}

impl Front {
    /// Connects and registers. Which relay that is, the reply says.
    async fn connect(&self, device: &Device) -> Socket {
        let mut socket = self.green.upgrade_at(self.switch.address(), device).await;
        socket.register().await;
        socket
    }

    fn is_green(&self, socket: &Socket) -> bool {
        socket.session["relayInstanceId"] == self.green_id.as_str()
    }

    /// The next frame, whatever it is, on this connection or the one that follows it; `None` if it
    /// was closed and followed by another. Nobody is ever told that a desktop is gone.
    async fn next(&self, socket: &mut Socket, patience: Duration) -> Option<Frame> {
        match socket.next_or_close(patience).await {
            Ok(frame) => {
                let event = &frame.value()["payload"];
                if event["eventType"] == "device-status" {
                    assert_ne!(event["payload"]["status"], "disconnected", "{event}");
                }
                Some(frame)
            }
            Err(code) => {
                assert_eq!(code, Some(1012), "{}", socket.device.id);
                assert!(!self.is_green(socket));
                let device = socket.device.clone();
                *socket = self.connect(&device).await;
                assert!(self.is_green(socket), "the switch was turned before");
                self.arrives("device", socket);
                None
            }
        }
    }

    fn arrives(&self, what: &'static str, socket: &Socket) {
        let arrival = (what, socket.device.id.clone());
        self.arrived.send(arrival).expect("the test waits");
    }

    async fn is_over(&self) {
        let mut over = self.over.clone();
        _ = over.wait_for(|over| *over).await;
    }

    /// A desktop that answers all but the held requests, until the end.
    async fn desktop(&self, mut socket: Socket) {
        loop {
            let frame = tokio::select! {
                biased;
                () = self.is_over() => return,
                frame = self.next(&mut socket, Duration::MAX) => frame,
            };
            if let Some(frame) = frame.filter(|frame| frame.kind == "rpc.request") {
                let request = &frame.value()["payload"];
                if request["method"] != HOLD {
                    socket.answer(request, json!(1)).await;
                }
            }
        }
    }

    /// A phone that asks until it was answered at the new relay, and then listens until the end.
    async fn phone(&self, mut socket: Socket, holds: bool) -> BTreeMap<Outcome, usize> {
        let mut outcomes = BTreeMap::new();
        if holds {
            let id = format!("held by {}", socket.device.id);
            socket.request(&id, HOLD, json!(0)).await;
            let outcome = self.outcome(&mut socket, &id).await;
            *outcomes.entry(outcome).or_default() += 1;
            assert!(outcomes.contains_key(&Outcome::Closed), "{outcomes:?}");
        }
        for number in 0.. {
            let id = format!("{number} of {}", socket.device.id);
            let asked_at_green = self.is_green(&socket);
            if number == ASKED && !asked_at_green {
                while self.next(&mut socket, Duration::MAX).await.is_some() {}
                continue;
            }
            socket.request(&id, "ask", json!(number)).await;
            let outcome = self.outcome(&mut socket, &id).await;
            *outcomes.entry(outcome).or_default() += 1;
            if asked_at_green && outcome == Outcome::Answered {
                break;
            }
        }
        self.arrives("answer", &socket);
        loop {
            tokio::select! {
                biased;
                () = self.is_over() => return outcomes,
                _ = self.next(&mut socket, Duration::MAX) => {}
            }
        }
    }

    /// Waits for the definite end of a request: an answer, or the close of the connection. A phone
    /// that hears of a desktop that reconnects is ready to ask again when it is told of its return.
    async fn outcome(&self, socket: &mut Socket, id: &str) -> Outcome {
        let (mut refused, mut online) = (false, false);
        loop {
            let Some(frame) = self.next(socket, DEADLINE).await else {
                return match refused {
                    true => Outcome::Reconnecting,
                    false => Outcome::Closed,
                };
            };
            let payload: &Value = &frame.value()["payload"];
            online |=
                payload["eventType"] == "device-status" && payload["payload"]["status"] == "online";
            if frame.kind == "rpc.response" && payload["id"] == id {
                if payload["error"].is_null() {
                    return Outcome::Answered;
                }
                assert_eq!(payload["error"]["code"], -32011, "{payload}");
                refused = true;
            }
            // The status may overtake the answer.
            if refused && online {
                return Outcome::Reconnecting;
            }
        }
    }
}

/// DR-1, DR-2, DR-3, DR-5, PR-1, PR-8: every device comes to the new relay, none is told that a desktop
/// is gone, each phone is told of its desktop's return, each request ends in an answer or a definite
/// close, who reads sees no end without a close frame, and the old relay's late writes change nothing.
#[tokio::test]
async fn a_deploy_strands_nobody() {
    // The full size once per run of the tests: two files of SQLite are no production.
    let desktops = match Backend::of_this_run() {
        Backend::Postgres => 500,
        Backend::Sqlite => 50,
    };
    let site = Site::new(&SETTINGS);
    let mut blue = site.start().await;
    let green = site.start().await;
    let green_id = green.get("/api/version").await.body["relayInstanceId"].clone();
    let (end, over) = watch::channel(false);
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let front = Arc::new(Front {
        switch: Switch::towards(blue.address()).await,
        green,
        green_id: green_id.as_str().expect("an id").to_owned(),
        over,
        arrived,
    });

    let devices: Vec<(Device, [Device; 2])> = (0..desktops)
        .map(|_| {
            let account = Account::new();
            let desktop = account.new_desktop();
            let phones = [(); 2].map(|()| account.new_phone().targeting(&desktop));
            (desktop, phones)
        })
        .collect();
    let connected: Vec<(Socket, [Socket; 2])> = iter(&devices)
        .map(async |(desktop, phones)| {
            for device in [desktop, &phones[0], &phones[1]] {
                blue.enrol(device).await;
            }
            let desktop = front.connect(desktop).await;
            let first = front.connect(&phones[0]).await;
            (desktop, [first, front.connect(&phones[1]).await])
        })
        .buffer_unordered(16)
        .collect()
        .await;

    let (mut desktop_stories, mut phone_stories) = (JoinSet::new(), JoinSet::new());
    for (number, (desktop, phones)) in connected.into_iter().enumerate() {
        let at = Arc::clone(&front);
        desktop_stories.spawn(async move { at.desktop(desktop).await });
        for (which, phone) in phones.into_iter().enumerate() {
            let holds = (2 * number + which).is_multiple_of(HOLDING);
            let at = Arc::clone(&front);
            phone_stories.spawn(async move { at.phone(phone, holds).await });
        }
    }
    front.switch.turn(front.green.address());
    blue.signal("TERM").await;
    let status = blue.exit_status().await;
    assert_eq!(status.code(), Some(0), "{}", blue.evidence().tail());
    let mut awaited = BTreeSet::new();
    for (desktop, phones) in &devices {
        awaited.insert(("device", desktop.id.clone()));
        for phone in phones {
            awaited.extend(["device", "answer"].map(|what| (what, phone.id.clone())));
        }
    }
    while !awaited.is_empty() {
        // Nobody's story is over yet, unless it failed.
        let what = tokio::select! {
            what = arrivals.recv() => what.expect("the devices live"),
            Some(Err(failed)) = desktop_stories.join_next() => {
                panic!("a desktop: {failed}; still awaited: {awaited:?}")
            }
            Some(Err(failed)) = phone_stories.join_next() => {
                panic!("a phone: {failed}; still awaited: {awaited:?}")
            }
        };
        assert!(awaited.remove(&what), "once");
    }

    let held = "SELECT count(*) AS number FROM devices WHERE status = 'online'";
    let all_online = async || front.green.site().database().number(held) == 3 * desktops as i64;
    front
        .green
        .eventually("every row is online", all_online)
        .await;
    let gone = "SELECT count(*) AS number FROM presence_history
                WHERE status = 'offline' AND reason <> 'relay_stopped'";
    assert_eq!(front.green.site().database().number(gone), 0);
    let figures = front.green.figures().await;
    let limited = figures.of("relay_rate_limited_frames_total");
    assert!(
        limited < 1.0,
        "the phones asked too much, not the relay lost it"
    );
    end.send_replace(true);
    desktop_stories.join_all().await;
    let mut outcomes: BTreeMap<Outcome, usize> = BTreeMap::new();
    for story in phone_stories.join_all().await {
        for (outcome, count) in story {
            *outcomes.entry(outcome).or_default() += count;
        }
    }
    assert!(outcomes[&Outcome::Answered] >= 2 * desktops, "{outcomes:?}");
    assert!(
        outcomes[&Outcome::Closed] >= 2 * desktops / HOLDING,
        "{outcomes:?}"
    );
}
