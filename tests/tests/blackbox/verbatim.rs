//! What is opaque passes byte for byte, whatever it is (TR-8).

use relay_tests::blackbox::{Account, Relay};
use serde_json::json;

/// JSON that a parser would change, refuse or lose.
fn awkward() -> Vec<String> {
    let digits = "1234567890".repeat(40);
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let mut texts: Vec<String> = [
        r#"{ "b" : 1 ,   "a" : [ 1 , 2 ] , "c" : { } }"#,
        "{\r\n\t\"a\":\t1\n}",
        r#"{"a":1,"a":2,"a":{"a":3,"a":4}}"#,
        r#"{"snake_case":{"_x":null,"__":[]},"_":1}"#,
        r#"{"id":"x","clientId":"y","type":"rpc.request","payload":{"id":"z"},"":0}"#,
        r#""\u0041\/\b\f\n\r\t\"\\\ud83d\ude00""#,
        r#"["\ud800","\udc00\ud800","\uDFFF"]"#,
        r#"["😀","é","é"]"#,
        "\"\u{2028}\u{7f}\u{feff}\"",
        "-0",
        "0.10000000000000000000000000000000000001",
        "1E400",
        "-1.5e-99999",
        "9007199254740993",
        "null",
        "true",
        "\"\"",
        "[]",
        "{}",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push(digits.clone());
    texts.push(format!("[{digits}.{digits}e{digits}]"));
    texts.push(deep);
    texts
}

/// TR-8: `params`, `result`, `error.data` and an event's `payload`.
#[tokio::test]
async fn opaque_values_keep_every_byte() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    for (round, text) in awkward().into_iter().enumerate() {
        let id = format!("r{round}");
        let payload = format!(r#"{{"id":"{id}","method":"m","params":{text}}}"#);
        phone
            .send_text(&format!(r#"{{"type":"rpc.request","payload":{payload}}}"#))
            .await;
        let request = desktop.take_kind("rpc.request").await;
        assert_eq!(request.raw_member("params"), text);

        let payload = format!(r#"{{"id":"{id}","result":{text},"isFinal":false}}"#);
        desktop
            .send_text(&format!(r#"{{"type":"rpc.response","payload":{payload}}}"#))
            .await;
        let response = phone.take_kind("rpc.response").await;
        assert_eq!(response.raw_member("result"), text);

        let error = format!(r#"{{"code":-7,"message":"m","data":{text}}}"#);
        let payload = format!(r#"{{"id":"{id}","error":{error}}}"#);
        desktop
            .send_text(&format!(r#"{{"type":"rpc.response","payload":{payload}}}"#))
            .await;
        let failed = phone.take_kind("rpc.response").await;
        let raw = failed.raw_member("error");
        assert!(raw.contains(&format!(r#""data":{text}"#)), "{raw}");

        let payload = format!(r#"{{"eventType":"x","payload":{text}}}"#);
        desktop
            .send_text(&format!(r#"{{"type":"event","payload":{payload}}}"#))
            .await;
        let event = phone.next_event("x").await;
        assert_eq!(event.raw_member("payload"), text);
    }
}

/// TR-8: white space around the fields is the frame's, not the value's; their order is free.
#[tokio::test]
async fn the_place_of_a_value_in_its_frame_is_free() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone
        .send_text(
            " \n{\t\"payload\" : { \"params\" :  [ 1 ] \n, \"method\":\"m\" , \"id\" :\"r\" } , \
             \"type\" : \"rpc.request\" } ",
        )
        .await;
    let request = desktop.take_kind("rpc.request").await;
    assert_eq!(request.raw_member("params"), "[ 1 ]");
    let request = json!({ "id": "r" });
    desktop.answer(&request, json!(1)).await;
    assert_eq!(phone.next_response().await["id"], "r");
}

/// TR-8: an id and a method go on as they were written, escapes included.
#[tokio::test]
async fn ids_and_methods_keep_their_escapes() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone
        .send_text(r#"{"type":"rpc.request","payload":{"id":"\u0061\/","method":"\u006d"}}"#)
        .await;
    let request = desktop.next_request().await;
    assert_eq!(
        (&request["id"], &request["method"]),
        (&json!("a/"), &json!("m"))
    );
    // The same id in another spelling is the same id.
    desktop
        .send_text(r#"{"type":"rpc.response","payload":{"id":"a\u002f","result":1}}"#)
        .await;
    assert_eq!(phone.next_response().await["id"], "a/");
}
