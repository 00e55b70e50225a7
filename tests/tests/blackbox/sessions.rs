//! Sessions and resuming them (REG-2 to REG-4, SES-1, SES-3, SES-4).

use relay_tests::blackbox::{Account, Relay, fresh_id};
use serde_json::{Value, json};

/// REG-2, SES-1: a resumed session keeps its id and token, again and again, also while the former
/// socket is still there.
#[tokio::test]
async fn sessions_are_resumed() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let first = desktop.session.clone();
    for round in 0..3 {
        let mut next = relay.upgrade(&desktop.device).await;
        next.resume(&first).await;
        let reply = next.session.as_object().unwrap();
        let mut fields: Vec<_> = reply.keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(
            fields,
            ["expiresAt", "relayInstanceId", "sessionId", "type"]
        );
        assert_eq!(reply["type"], "resumed");
        assert_eq!(reply["sessionId"], first["sessionId"]);
        assert_eq!(reply["relayInstanceId"], first["relayInstanceId"]);
        let former = std::mem::replace(&mut desktop, next);
        if round == 0 {
            former.vanish();
        } else {
            let mut former = former;
            former.expect_close(4410).await;
        }
    }
    let mut phone = relay.phone(&desktop.device).await;
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!("resumed")).await;
    assert_eq!(phone.next_response().await["result"], "resumed");
}

/// REG-4, SES-4: a token that is unknown, cut, of another session or of another device, and half a
/// resume; the socket stays for a registration without one.
#[tokio::test]
async fn wrong_resumes_are_refused() {
    let relay = Relay::start_with(&[("limits.resume_attempts", "20")]).await;
    let account = Account::new();
    let desktop = relay.desktop(&account).await;
    let other = relay.desktop(&account).await;
    let foreign = relay.desktop(&Account::new()).await;
    let own = desktop.session.clone();
    let (id, token) = (&own["sessionId"], &own["resumeToken"]);
    let text = token.as_str().unwrap();
    let cut = &text[..text.len() - 4];
    let mut wrong = vec![
        (id.clone(), json!(changed(text))),
        (id.clone(), json!(cut)),
        (id.clone(), json!("")),
        (json!(""), token.clone()),
        (json!(fresh_id()), token.clone()),
        (json!("no uuid"), token.clone()),
        (id.clone(), Value::Null),
        (Value::Null, token.clone()),
    ];
    for session in [&other.session, &foreign.session] {
        wrong.push((id.clone(), session["resumeToken"].clone()));
        wrong.push((session["sessionId"].clone(), token.clone()));
        wrong.push((session["sessionId"].clone(), session["resumeToken"].clone()));
    }
    let mut socket = relay.upgrade(&desktop.device).await;
    for (session_id, resume_token) in wrong {
        let mut payload = desktop.device.registration();
        for (field, value) in [("sessionId", session_id), ("resumeToken", resume_token)] {
            if !value.is_null() {
                payload[field] = value;
            }
        }
        socket.send_register(payload).await;
        let error = socket.expect_error("invalidResume").await;
        assert_eq!(error["requestType"], "register");
    }
    socket.register().await;
    socket.ping().await;
    socket.assert_all_read();
}

/// Another token of the same form.
fn changed(token: &str) -> String {
    let first = if token.starts_with('A') { "B" } else { "A" };
    format!("{first}{}", &token[1..])
}

/// REG-4: the fourth refused resume on one socket closes it; three leave it usable.
#[tokio::test]
async fn the_fourth_refused_resume_closes() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let unknown = json!({ "sessionId": fresh_id(), "resumeToken": "A".repeat(43) });
    let mut patient = relay.upgrade(&device).await;
    for _ in 0..3 {
        patient.resume(&unknown).await;
        assert_eq!(patient.session["code"], "invalidResume");
    }
    patient.register().await;

    let mut stubborn = relay.upgrade(&device).await;
    for _ in 0..4 {
        stubborn.resume(&unknown).await;
        assert_eq!(stubborn.session["code"], "invalidResume");
    }
    stubborn.expect_close(1008).await;
    patient.ping().await;
}

/// SES-1: a device has one session; a new one ends the old.
#[tokio::test]
async fn a_new_session_ends_the_old() {
    let relay = Relay::start().await;
    let desktop = relay.desktop(&Account::new()).await;
    let old = desktop.session.clone();
    let new = relay.connect(&desktop.device).await;
    let mut socket = relay.upgrade(&desktop.device).await;
    socket.resume(&old).await;
    assert_eq!(socket.session["code"], "invalidResume");
    socket.resume(&new.session).await;
    assert_eq!(socket.session["type"], "resumed");
}

/// REG-3: a resume passes all other checks, each told before the resume is looked at.
#[tokio::test]
async fn a_resume_is_checked_like_a_registration() {
    let relay = Relay::start().await;
    let desktop = relay.desktop(&Account::new()).await;
    let phone = relay.phone(&desktop.device).await;
    let mut database = relay.site().database();
    let resume = |session: &Value| {
        let mut payload = phone.device.registration();
        payload["sessionId"] = session["sessionId"].clone();
        payload["resumeToken"] = session["resumeToken"].clone();
        payload
    };
    let mut payload = resume(&phone.session);
    payload["targetDesktopDeviceId"] = json!(fresh_id());
    let mut socket = relay.upgrade(&phone.device).await;
    socket.send_register(payload).await;
    socket.expect_error("invalidTargetDesktop").await;
    socket.expect_close(1008).await;

    database.execute("UPDATE relay_policy SET min_protocol_version = 2");
    let mut socket = relay.upgrade(&phone.device).await;
    socket.send_register(resume(&phone.session)).await;
    socket.expect_error("protocolVersionUnsupported").await;
    socket.expect_close(1008).await;
}

/// OP-5, SES-4: at the most talkative level the log tells of connections, and shows no token.
#[tokio::test]
async fn the_log_shows_no_token() {
    let relay = Relay::start_with(&[("telemetry.log_level", "trace")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let session = desktop.session.clone();
    desktop = relay.upgrade(&desktop.device).await;
    desktop.resume(&session).await;
    assert_eq!(desktop.session["type"], "resumed");
    let device = desktop.device.clone();
    desktop.close().await;
    let about_close = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let closed = line["message"] == "closed" && line["device"] == device.id.as_str();
        (closed && line["side"] == "peer").then_some(())
    };
    relay.evidence().wait_for("the close", about_close).await;
    let log = relay.evidence().lines().join("\n");
    let signature = device.account.token.rsplit('.').next().unwrap();
    for secret in [
        session["resumeToken"].as_str().unwrap(),
        signature,
        relay_tests::blackbox::SECRET,
    ] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}
