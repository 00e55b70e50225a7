//! Sessions that are resumed, and resumes that are refused.

use std::time::Duration;

use relay_model::store::DeviceType;
use relay_tests::paused::{Run, pass};
use serde_json::json;

/// REG-2, SES-1, SES-3, SES-4: a session is resumed within 24 h of its last touch, and not later.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn sessions_are_resumed_for_a_day() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let (id, resume) = (desktop.id, desktop.resume());
    let session = desktop.session["sessionId"].clone();
    desktop.close().await;
    pass(Duration::from_secs(24 * 3_600 - 60)).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    desktop.register_with(resume.clone()).await;
    assert_eq!(desktop.session["type"], "resumed");
    assert_eq!(desktop.session["sessionId"], session);
    assert!(desktop.session.get("resumeToken").is_none());
    desktop
        .send(json!({"type": "heartbeat", "payload": {"cpuUsage": 1}}))
        .await;
    assert_eq!(desktop.next().await["type"], "pong");
    desktop.close().await;
    // The touch at the close counts; the session's sweep comes every 5 minutes.
    pass(Duration::from_secs(24 * 3_600 - 60)).await;
    assert_eq!(run.state().await.sessions, 1);
    pass(Duration::from_secs(60)).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    desktop.register_with(resume).await;
    assert_eq!(desktop.session["code"], "invalidResume");
    desktop.register().await;
}

/// REG-4: three refused resumes leave the socket open, the fourth closes it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn the_fourth_refused_resume_closes() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    for attempt in 1..=4 {
        desktop.register_with(json!({"sessionId": id})).await;
        assert_eq!(desktop.session["code"], "invalidResume", "{attempt}");
    }
    assert_eq!(desktop.next_close().await, 1008);
}
