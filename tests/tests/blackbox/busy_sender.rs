//! Devices that come and go in every way while others send as fast as the relay takes it: in the end no
//! ghost is left, neither in the list of devices nor among the sockets (REG-6, PR-6).

use std::collections::BTreeSet;

use relay_tests::blackbox::{
    Account, Device, OpCode, RawSocket, Relay, Socket, by_length, encode, rpc_request,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Visits at a time.
const AT_ONCE: usize = 20;

/// How a visitor leaves.
#[derive(Debug, Clone, Copy)]
enum Leave {
    /// With a close frame, and waits for the relay's.
    Close,
    /// With a reset, while events are on their way to it.
    Reset,
    /// Without a word, with what it has not read.
    Vanish,
    /// Not at all: it stops reading and answering until the relay gives it up.
    FallSilent,
}

const WAYS: [Leave; 4] = [Leave::Close, Leave::Reset, Leave::Vanish, Leave::FallSilent];

/// Sends events and requests as fast as they are taken, and reads the answers, until the end.
fn sends_at_line_rate(
    mut sender: Socket,
    make: impl Fn(u64) -> Value + Send + 'static,
    ending: watch::Receiver<bool>,
) -> JoinHandle<(Socket, u64)> {
    tokio::spawn(async move {
        let mut sent = 0;
        while !*ending.borrow() {
            for _ in 0..64 {
                sender.send(&make(sent)).await;
                sent += 1;
            }
            // What came meanwhile is read, so that the sender itself is a healthy peer.
            sender.ping().await;
            let _ = sender.take_unread();
        }
        (sender, sent)
    })
}

async fn visit(mut visitor: RawSocket, device: &Device, way: Leave) -> Option<RawSocket> {
    visitor.register(device).await;
    // The events of the busy sender are on their way already.
    visitor.read_bytes(1_000).await;
    match way {
        Leave::Close => {
            let goodbye = encode(OpCode::Close, true, &1000_u16.to_be_bytes());
            visitor.send(&goodbye).await;
            visitor.drain().await;
            None
        }
        Leave::Reset => {
            visitor.reset();
            None
        }
        Leave::Vanish => None,
        Leave::FallSilent => Some(visitor),
    }
}

/// REG-6, PR-2, PR-6, TR-5, TR-10: 200 devices connect, register and leave in four ways while a desktop
/// and a phone send at line rate. Then each of them is listed as offline, and the relay has exactly the
/// sockets that the kernel has as connections to it, those of the senders among them.
#[tokio::test]
async fn no_ghost_is_left() {
    let relay = Relay::start_with(&[
        ("limits.rate_burst", "1000000"),
        ("limits.rate_per_second", "1000000"),
        ("limits.ping_interval", "500ms"),
        ("limits.client_timeout", "3s"),
        ("limits.close_timeout", "300ms"),
        ("presence.reconnect_grace", "500ms"),
    ])
    .await;
    let account = Account::new();
    let desktop = relay.desktop(&account).await;
    let phone = relay.phone(&desktop.device).await;
    let (desktop_device, phone_device) = (desktop.device.clone(), phone.device.clone());
    let staying = BTreeSet::from([desktop.port(), phone.port()]);
    let (end, ending) = watch::channel(false);
    let event = |number| {
        let payload = json!({ "eventType": "x", "payload": number });
        json!({ "type": "event", "payload": payload })
    };
    let request = |number: u64| rpc_request(&format!("r{number}"), "m", json!(number));
    let senders = [
        sends_at_line_rate(desktop, event, ending.clone()),
        sends_at_line_rate(phone, request, ending),
    ];

    let mut left: BTreeSet<u16> = BTreeSet::new();
    for _ in 0..by_length(1, 20) {
        let mut silent = Vec::new();
        for turn in 0..200 / AT_ONCE {
            let mut visits = tokio::task::JoinSet::new();
            for number in 0..AT_ONCE {
                let device = if number % 5 == 0 {
                    account.new_desktop()
                } else {
                    account.new_phone().targeting(&desktop_device)
                };
                relay.enrol(&device).await;
                let visitor = relay.raw(&device).await;
                left.insert(visitor.port());
                let way = WAYS[(turn + number) % WAYS.len()];
                visits.spawn(async move { visit(visitor, &device, way).await });
            }
            while let Some(visit) = visits.join_next().await {
                silent.extend(visit.expect("a visit"));
            }
        }
        for mut visitor in silent {
            visitor.drain().await;
        }
    }

    end.send(true).expect("the senders live");
    let mut sockets = Vec::new();
    for sender in senders {
        let (socket, sent) = sender.await.expect("a sender is not harmed by others");
        println!("{sent} messages");
        assert!(sent > 1_000, "it was kept from sending: {sent}");
        sockets.push(socket);
    }
    relay
        .eventually("only the senders online", async || {
            let devices = relay.devices(&account, "").await;
            devices.iter().all(|row| {
                let stays =
                    row["deviceId"] == desktop_device.id || row["deviceId"] == phone_device.id;
                row["status"] == if stays { "online" } else { "offline" }
            })
        })
        .await;
    let connected = relay.devices(&account, "?connectedOnly=true").await;
    assert_eq!(connected.len(), 2, "{connected:?}");
    relay
        .eventually("as many sockets as connections", async || {
            let peers = relay.peers();
            peers == relay.established()
                && peers.is_superset(&staying)
                && peers.is_disjoint(&left)
                && relay.dead_sockets() == 0
        })
        .await;
    for socket in &mut sockets {
        socket.ping().await;
    }
}
