//! Pushes through the real actors on a paused clock, with a push service in memory (section 12).

use std::time::Duration;

use relay_actors::push::{Attempt, PushContent, PushCounts, PushKind, PushService, PushState};
use relay_model::ids::{AccountId, DeviceId};
use relay_model::limits::{
    ALERT_LIFETIME, DESKTOP_ONLINE_LIFETIME, DESKTOP_ONLINE_PAUSE, PUSH_BACKOFF, PUSH_TIMEOUT,
};
use relay_model::push::{
    NewPushToken, PushEnvironment, PushOutcome, PushPlatform, PushTokenRow, PushTokenSetting,
};
use relay_tests::memory_store::MemoryStore;
use relay_tests::paused::{Device, FakePush, Run, pass};
use serde_json::json;

use PushKind::DesktopOnline;
use PushOutcome::{Delivered, Dropped, Expired, Refused, Rejected, Retried, TokenGone};
use PushService::{Apns, Unread};

const MOMENT: Duration = Duration::from_millis(20);

fn token(platform: PushPlatform, text: &str) -> NewPushToken {
    NewPushToken {
        platform,
        environment: (platform == PushPlatform::Ios).then_some(PushEnvironment::Sandbox),
        token: format!("pushtoken-{text}").parse().expect("a token"),
    }
}

async fn set_token(run: &Run, account: AccountId, phone: DeviceId, new: NewPushToken) {
    let set = run.relay.set_push_token(account, phone, new).await;
    assert_eq!(set, Ok(PushTokenSetting::Set));
}

/// A phone that is not connected and has a token.
async fn sleeping_phone(run: &Run, account: AccountId, text: &str) -> DeviceId {
    let phone = run.phone_row(account).await;
    set_token(run, account, phone, token(PushPlatform::Ios, text)).await;
    phone
}

fn start(push: &FakePush) -> Run {
    Run::with_push(MemoryStore::new(), push.services(), |_| ())
}

async fn state(run: &Run) -> PushState {
    run.state().await.push
}

async fn row(run: &Run, account: AccountId) -> PushTokenRow {
    let mut rows = run.relay.push_tokens(account).await.expect("the rows");
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// Checks all counts at once: those that are not named are zero.
fn assert_counts(counts: PushCounts, expected: &[(PushService, PushKind, PushOutcome, u64)]) {
    let counted: Vec<_> = counts.iter().filter(|(.., count)| *count > 0).collect();
    assert_eq!(counted, expected);
}

fn failed(reason: &str) -> Attempt {
    Attempt::Failed {
        retry_after: None,
        reason: reason.to_owned(),
    }
}

async fn notify(desktop: &mut Device, title: &str) {
    let payload = json!({"sessionId": "s-1", "title": title, "body": "Body"});
    desktop.event("agent-notification-requested", payload).await;
    pass(MOMENT).await;
}

fn titles(push: &FakePush) -> Vec<String> {
    let taken = push.taken().into_iter();
    let titles = taken.filter_map(|(_, push)| match &*push.content {
        PushContent::Alert(alert) => Some(alert.title.clone()),
        PushContent::DesktopOnline(_) => None,
    });
    titles.collect()
}

/// PUSH-2, REG-8: a desktop's registration wakes every phone of the account that has a token, and
/// nobody else's; what became of it is counted and stored.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_wakes_its_accounts_phones() {
    let push = FakePush::default();
    let run = start(&push);
    let (ours, theirs) = (run.account(), run.account());
    let phone = sleeping_phone(&run, ours, "ours").await;
    sleeping_phone(&run, theirs, "theirs").await;
    let android = run.phone_row(ours).await;
    set_token(&run, ours, android, token(PushPlatform::Android, "android")).await;
    run.phone_row(ours).await;
    let forgotten = sleeping_phone(&run, ours, "forgotten").await;
    assert!(run.store.forget(forgotten));

    let desktop = run.desktop(ours).await;
    pass(MOMENT).await;
    let taken = push.taken();
    let tokens: Vec<&str> = taken.iter().map(|(_, push)| push.token.reveal()).collect();
    assert_eq!(tokens, ["pushtoken-ours", "pushtoken-android"]);
    for (_, push) in &taken {
        let PushContent::DesktopOnline(online) = &*push.content else {
            panic!("{push:?}");
        };
        assert_eq!(
            (online.desktop, online.instance),
            (desktop.id, run.relay.instance())
        );
    }
    assert_eq!(taken[0].1.environment, Some(PushEnvironment::Sandbox));
    let counts = state(&run).await.counts;
    let (apns, fcm) = (PushService::Apns, PushService::Fcm);
    let expected = [
        (apns, DesktopOnline, Delivered, 1),
        (fcm, DesktopOnline, Delivered, 1),
    ];
    assert_counts(counts, &expected);
    let rows = run.relay.push_tokens(ours).await.expect("the rows");
    assert_eq!(rows[0].device, phone);
    assert!(
        rows.iter()
            .all(|row| matches!(row.last_outcome, Some((Delivered, _))))
    );
}

/// PUSH-2: a desktop that comes and goes wakes its phones at once, and then at most every 30 s with
/// the last of its generations; after a quiet time nothing is kept.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_flapping_desktop_is_told_of_every_thirty_seconds() {
    let push = FakePush::default();
    let run = start(&push);
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let desktop = run.desktop_row(account).await;
    let mut last = run.desktop_again(account, desktop).await;
    for _ in 0..9 {
        pass(Duration::from_secs(3)).await;
        last = run.desktop_again(account, desktop).await;
    }
    pass(DESKTOP_ONLINE_PAUSE).await;
    let taken = push.taken();
    assert_eq!(taken.len(), 2, "{taken:?}");
    let pause = taken[1].0.duration_since(taken[0].0);
    assert!(
        pause >= DESKTOP_ONLINE_PAUSE && pause < DESKTOP_ONLINE_PAUSE + MOMENT,
        "{pause:?}"
    );
    let generations: Vec<u64> = taken
        .iter()
        .map(|(_, push)| match &*push.content {
            PushContent::DesktopOnline(online) => online.generation.get(),
            PushContent::Alert(_) => panic!("no alert was asked for"),
        })
        .collect();
    assert_eq!(generations[1], generations[0] + 9);
    pass(DESKTOP_ONLINE_LIFETIME * 2).await;
    assert_eq!(state(&run).await.desktops, 0);
    last.close().await;
}

/// PUSH-3, EV-3: a desktop's notification is sent to all and pushed; a phone's is sent to all only,
/// and an ill-shaped one does neither.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_notification_is_sent_and_pushed() {
    let push = FakePush::default();
    let run = start(&push);
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    pass(MOMENT).await;
    push.taken();

    notify(&mut desktop, "Done").await;
    let event = phone.next_event("agent-notification-requested").await;
    assert_eq!(event["title"], "Done");
    let taken = push.taken();
    assert_eq!(taken.len(), 1);
    let PushContent::Alert(alert) = &*taken[0].1.content else {
        panic!("no alert: {taken:?}");
    };
    assert_eq!(
        (&*alert.session, &*alert.title, &*alert.body),
        ("s-1", "Done", "Body")
    );

    notify(&mut phone, "From a phone").await;
    desktop.next_event("agent-notification-requested").await;
    desktop
        .event("agent-notification-requested", json!({"title": "no body"}))
        .await;
    assert_eq!(desktop.next().await["code"], "invalidPayload");
    phone.hears_nothing_for(MOMENT).await;
    assert_eq!(titles(&push), [""; 0]);
}

/// PUSH-4: what failed is tried again with growing waits until its time is over: an hour for an alert,
/// a minute for a `desktop_online`.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn pushes_are_tried_until_their_time_is_over() {
    let push = FakePush::default();
    for _ in 0..500 {
        push.answer(failed("503 Busy"));
    }
    let run = start(&push);
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let mut desktop = run.desktop(account).await;
    pass(DESKTOP_ONLINE_LIFETIME).await;
    let online = push.taken();
    assert!((4..=9).contains(&online.len()), "{} attempts", online.len());
    let last = online.last().expect("attempts").0;
    assert!(last.duration_since(online[0].0) < DESKTOP_ONLINE_LIFETIME);
    let first = online[1].0.duration_since(online[0].0);
    assert!(
        first >= PUSH_BACKOFF / 2 && first <= PUSH_BACKOFF,
        "{first:?}"
    );
    let counts = state(&run).await.counts;
    assert_eq!(counts.get(Apns, DesktopOnline, Expired), 1);
    assert_eq!(
        counts.get(Apns, DesktopOnline, Retried),
        online.len() as u64 - 1
    );
    assert!(matches!(
        row(&run, account).await.last_outcome,
        Some((Expired, _))
    ));

    notify(&mut desktop, "Alert").await;
    pass(ALERT_LIFETIME - Duration::from_secs(300)).await;
    assert_eq!(state(&run).await.queued, 1, "it is not given up early");
    pass(Duration::from_secs(600)).await;
    let attempts = titles(&push).len();
    assert!((30..80).contains(&attempts), "{attempts}");
    let after = state(&run).await;
    assert_eq!((after.queued, after.in_flight), (0, 0));
    assert_eq!(after.counts.get(Apns, PushKind::Alert, Expired), 1);
}

/// PUSH-4: `Retry-After` is honoured, and what succeeds then is over; an answer that never comes is a
/// failure like others.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_service_says_when_to_come_again() {
    let push = FakePush::default();
    push.answer(Attempt::Failed {
        retry_after: Some(Duration::from_secs(40)),
        reason: "429 TooManyRequests".to_owned(),
    });
    let run = start(&push);
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let mut desktop = run.desktop(account).await;
    pass(Duration::from_secs(45)).await;
    let taken = push.taken();
    assert_eq!(taken.len(), 2);
    let wait = taken[1].0.duration_since(taken[0].0);
    assert!(
        wait >= Duration::from_secs(40) && wait <= Duration::from_secs(42),
        "{wait:?}"
    );

    push.take(Duration::from_secs(3_600));
    notify(&mut desktop, "Slow").await;
    pass(PUSH_TIMEOUT - MOMENT * 2).await;
    assert_eq!(state(&run).await.in_flight, 1);
    push.take(Duration::ZERO);
    pass(Duration::from_secs(5)).await;
    assert_eq!(titles(&push), ["Slow"; 2]);
    assert_eq!(
        state(&run)
            .await
            .counts
            .get(Apns, PushKind::Alert, Delivered),
        1
    );
}

/// PUSH-4: a token that is gone is removed, unless its phone has registered since it went.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn tokens_that_are_gone_are_removed() {
    let push = FakePush::default();
    let run = start(&push);
    let account = run.account();
    let phone = sleeping_phone(&run, account, "p").await;
    let registered_at = row(&run, account).await.registered_at;
    let older = registered_at.minus(Duration::from_secs(1));
    push.answer(Attempt::TokenGone { since: Some(older) });
    let mut desktop = run.desktop(account).await;
    pass(MOMENT).await;
    let kept = row(&run, account).await;
    assert!(matches!(kept.last_outcome, Some((TokenGone, _))));

    // The phone registers again while the push is under way.
    push.answer(Attempt::TokenGone { since: None });
    push.take(Duration::from_secs(1));
    notify(&mut desktop, "Race").await;
    set_token(&run, account, phone, token(PushPlatform::Ios, "p")).await;
    pass(Duration::from_secs(2)).await;
    assert!(row(&run, account).await.registered_at > registered_at);

    let since = Some(row(&run, account).await.registered_at);
    push.take(Duration::ZERO);
    push.answer(Attempt::TokenGone { since });
    notify(&mut desktop, "Gone").await;
    assert_eq!(run.relay.push_tokens(account).await, Ok(Vec::new()));
    let counts = state(&run).await.counts;
    assert_eq!(counts.get(Apns, PushKind::Alert, TokenGone), 2);
    assert_eq!(counts.get(Apns, DesktopOnline, TokenGone), 1);
}

/// PUSH-1, PUSH-4: what a service takes from nobody is not tried again, and the token stays.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn refused_pushes_are_not_tried_again() {
    let push = FakePush::default();
    push.answer(Attempt::Rejected("400 PayloadEmpty".to_owned()));
    push.answer(Attempt::Refused("InvalidProviderToken".to_owned()));
    let run = start(&push);
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let mut desktop = run.desktop(account).await;
    pass(MOMENT).await;
    assert!(matches!(
        row(&run, account).await.last_outcome,
        Some((Rejected, _))
    ));
    notify(&mut desktop, "One").await;
    assert!(matches!(
        row(&run, account).await.last_outcome,
        Some((Refused, _))
    ));
    pass(ALERT_LIFETIME).await;
    assert_eq!(push.taken().len(), 2);
}

/// PUSH-4: when the queue is full, the oldest `desktop_online` makes way for an alert, and is counted.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_full_queue_drops_the_oldest_silent_push() {
    let push = FakePush::default();
    push.take(Duration::from_secs(10));
    let run = Run::with_push(MemoryStore::new(), push.services(), |limits| {
        limits.push_queue = 3;
        limits.push_concurrency = 1;
    });
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let mut desktops = Vec::new();
    for _ in 0..3 {
        desktops.push(run.desktop(account).await);
        pass(MOMENT).await;
    }
    for title in ["One", "Two", "Three"] {
        notify(&mut desktops[0], title).await;
    }
    pass(Duration::from_secs(120)).await;
    assert_eq!(titles(&push), ["Two", "Three"]);
    let counts = state(&run).await.counts;
    assert_eq!(counts.get(Unread, DesktopOnline, Dropped), 2);
    assert_eq!(counts.get(Unread, PushKind::Alert, Dropped), 1);
    assert_eq!(counts.get(Apns, PushKind::Alert, Delivered), 2);
}

/// DR-3: pushes that were accepted are finished first; what a pause holds back is dropped.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn accepted_pushes_are_finished_before_the_stop() {
    let push = FakePush::default();
    push.answer(Attempt::Delivered);
    push.answer(failed("503 Busy"));
    let run = start(&push);
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let mut desktop = run.desktop(account).await;
    pass(MOMENT).await;
    push.take(Duration::from_secs(2));
    notify(&mut desktop, "Last words").await;
    let desktop = run.desktop_again(account, desktop.id).await;
    run.drain().await;
    drop(desktop);
    assert_eq!(titles(&push), ["Last words"; 2]);
    let after = state(&run).await;
    assert_eq!((after.queued, after.in_flight), (0, 0));
    assert_eq!(after.counts.get(Apns, PushKind::Alert, Delivered), 1);
    assert_eq!(after.counts.get(Unread, DesktopOnline, Dropped), 1);
    assert!(matches!(
        row(&run, account).await.last_outcome,
        Some((Delivered, _))
    ));
}

/// PUSH-4: a database that is away delays a push, and no more.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_database_that_is_away_is_waited_for() {
    let push = FakePush::default();
    let run = start(&push);
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let mut desktop = run.desktop(account).await;
    pass(MOMENT).await;
    push.taken();
    run.store.set_failing(true);
    notify(&mut desktop, "Patience").await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(titles(&push), [""; 0]);
    run.store.set_failing(false);
    pass(Duration::from_secs(150)).await;
    assert_eq!(titles(&push), ["Patience"]);
}

/// PUSH-1: without services nothing is looked up, queued or counted.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn without_services_nothing_happens() {
    let run = Run::start();
    let account = run.account();
    sleeping_phone(&run, account, "p").await;
    let mut desktop = run.desktop(account).await;
    notify(&mut desktop, "Nobody").await;
    assert_eq!(state(&run).await, PushState::default());
    assert_eq!(run.store.counts().push_token_reads, 0);
}
