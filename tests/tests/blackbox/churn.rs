//! Phones that come, ask once and leave, very many of them: nothing of them adds up (REG-6, RPC-8).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay_tests::blackbox::{Account, Device, OTHER_FILES, Relay, Socket, by_length, rpc_request};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

const MIB: u64 = 1024 * 1024;
/// Accounts, each with a desktop.
const ACCOUNTS: usize = 8;
/// Phones of each account, which take turns: the relay keeps a session of each for a day (SES-1), so
/// new phones for ever would cost memory by the rules.
const PHONES: usize = 8;

/// A desktop answers as fast as it is asked, and the log is left out but for what is wrong.
const SETTINGS: [(&str, &str); 4] = [
    ("limits.rate_burst", "1000000"),
    ("limits.rate_per_second", "1000000"),
    ("presence.reconnect_grace", "1s"),
    ("telemetry.log_level", "warn,relay_http=info"),
];

/// Answers everything until the end; what the desktop hears beside requests is thrown away.
async fn answers(mut desktop: Socket, mut ending: watch::Receiver<()>) -> Socket {
    loop {
        let request = tokio::select! {
            request = desktop.next_request() => request,
            _ = ending.changed() => return desktop,
        };
        let result = request["params"].clone();
        desktop.answer(&request, result).await;
        drop(desktop.take_unread());
    }
}

/// One visit; each third of them ends with a close frame, with a reset, or without a word.
async fn visit(relay: &Relay, device: &Device, number: usize) {
    let id = format!("r{number}");
    let request = rpc_request(&id, "m", json!(number));
    if number.is_multiple_of(3) {
        let mut phone = relay.connect(device).await;
        phone.send(&request).await;
        assert_eq!(phone.next_response().await["result"], json!(number));
        return phone.close().await;
    }
    let mut phone = relay.raw(device).await;
    phone.register(device).await;
    phone.send_json(&request).await;
    loop {
        let frame = phone.next_json().await;
        if frame["type"] == "rpc.response" {
            assert_eq!(frame["payload"]["result"], json!(number));
            break;
        }
    }
    match number % 3 {
        1 => phone.reset(),
        _ => drop(phone),
    }
}

/// Makes so many visits, each phone's one after the other, all phones beside each other.
async fn visits(relay: &Arc<Relay>, phones: &[Device], next: &Arc<AtomicUsize>, end: usize) {
    let mut visitors = JoinSet::new();
    for phone in phones {
        let (relay, next, phone) = (Arc::clone(relay), Arc::clone(next), phone.clone());
        visitors.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    break;
                }
                visit(&relay, &phone, number).await;
            }
        });
    }
    while let Some(visitor) = visitors.join_next().await {
        visitor.expect("every visit is answered");
    }
    next.store(end, Ordering::Relaxed);
}

/// REG-6, RPC-2, PR-6: after a warm-up the second half of the visits costs no more memory than the first,
/// and in the end nobody is online but the desktops, whose sockets are the only ones left.
///
/// Memory: 6 MiB in the short form, in which the caches of the database are still being filled (2 MiB for
/// each of its connections); 4 KiB lost a visit, one buffer, would be as much. 8 MiB in the long one, in
/// which 100 bytes lost a visit would be 9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_adds_up() {
    let (warm_up, half) = by_length((1_000, 1_500), (10_000, 95_000));
    let relay = Arc::new(Relay::start_with(&SETTINGS).await);
    let (end, ending) = watch::channel(());
    let mut desktops = JoinSet::new();
    let mut phones = Vec::new();
    let mut accounts = Vec::new();
    let mut ports = Vec::new();
    let mut living = Vec::new();
    for _ in 0..ACCOUNTS {
        let account = Account::new();
        let desktop = relay.desktop(&account).await;
        ports.push(desktop.port());
        for _ in 0..PHONES {
            let phone = account.new_phone().targeting(&desktop.device);
            relay.enrol(&phone).await;
            phones.push(phone);
        }
        accounts.push(account);
        desktops.spawn(answers(desktop, ending.clone()));
    }
    let files = relay.open_files();
    let next = Arc::new(AtomicUsize::new(0));
    visits(&relay, &phones, &next, warm_up).await;
    let before = relay.resident();
    visits(&relay, &phones, &next, warm_up + half).await;
    let between = relay.resident();
    visits(&relay, &phones, &next, warm_up + 2 * half).await;
    let after = relay.resident();
    println!("{before} bytes, then {between}, then {after}");
    let grown = after.saturating_sub(between);
    let bound = by_length(6 * MIB, 8 * MIB);
    assert!(
        grown <= bound,
        "{grown} bytes more than after the first half"
    );
    end.send(()).expect("the desktops live");
    while let Some(desktop) = desktops.join_next().await {
        let mut desktop = desktop.expect("a desktop is not harmed by visitors");
        desktop.ping().await;
        living.push(desktop);
    }

    for account in &accounts {
        relay
            .eventually("only its desktop online", async || {
                let devices = relay.devices(account, "?connectedOnly=true").await;
                devices.iter().all(|row| row["deviceType"] == "desktop") && devices.len() == 1
            })
            .await;
    }
    relay
        .eventually("only the desktops' sockets", async || {
            let peers = relay.peers();
            peers == relay.established()
                && ports.iter().all(|port| peers.contains(port))
                && relay.dead_sockets() == 0
                && relay.open_files() <= files + OTHER_FILES
        })
        .await;
    let log = relay.evidence().lines();
    let bad = |line: &&String| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        line["level"] == "ERROR"
    };
    let bad: Vec<_> = log.iter().filter(bad).collect();
    assert!(bad.is_empty(), "{bad:?}");
}
