//! What is read, what is refused with which words, and the cut against a scanner of its own.

use bytes::Bytes;
use proptest::prelude::*;

use super::notices::{LeaseState, timeline_all_stale, timeline_interest_updated, timeline_stale};
use super::snapshot::{Snapshot, timeline_update};
use super::*;
use crate::ids::{DeviceId, RelayInstanceId};
use crate::time::Timestamp;
use crate::wire::inbound::ClientFrame;

fn raw(text: &str) -> Box<RawValue> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn interest(payload: &str) -> Result<(String, bool), String> {
    read_interest(Some(&raw(payload)), &Limits::default())
        .map(|interest| (interest.session.to_string(), interest.active))
        .map_err(|error| error.to_string())
}

/// TL-1, TL-2, TR-8: the base session, whatever else the payload holds and however it is escaped.
#[test]
fn interests_are_read() {
    for (payload, session, active) in [
        (r#"{"appSessionId":"s","active":true}"#, "s", true),
        (
            r#"{"active":false,"appSessionId":" s:skills-agent "}"#,
            "s",
            false,
        ),
        (
            "{ \"x\" : {\"active\":1,\"active\":2} , \"\\u0061ctive\"\n:\ttrue, \"appSessionI\\u0064\":\"\\u00e9\"}",
            "é",
            true,
        ),
        (
            r#"{"x":1,"x":2,"\ud800":3,"appSessionId":"s","active":true,"y":1e999}"#,
            "s",
            true,
        ),
    ] {
        assert_eq!(
            interest(payload),
            Ok((session.to_owned(), active)),
            "{payload}"
        );
    }
}

/// TL-1, TL-2, TR-7: each defect is refused with words that name the field.
#[test]
fn interests_that_are_wrong() {
    for (payload, message) in [
        ("[]", "not an object"),
        ("null", "not an object"),
        (r#""x""#, "not an object"),
        (r#"{"active":true}"#, "appSessionId is missing"),
        (
            r#"{"appSessionId":null,"active":true}"#,
            "appSessionId must be a string",
        ),
        (
            r#"{"appSessionId":["s"],"active":true}"#,
            "appSessionId must be a string",
        ),
        (
            r#"{"appSessionId":"\ud800","active":true}"#,
            "appSessionId must be a string",
        ),
        (
            r#"{"appSessionId":" :skills-agent","active":true}"#,
            "appSessionId is empty",
        ),
        (r#"{"appSessionId":"s"}"#, "active is missing"),
        (
            r#"{"appSessionId":"s","active":null}"#,
            "active must be true or false",
        ),
        (
            r#"{"appSessionId":"s","active":"true"}"#,
            "active must be true or false",
        ),
        (
            r#"{"appSessionId":"s","active":1}"#,
            "active must be true or false",
        ),
        (
            r#"{"appSessionId":"s","active":true,"\u0061ctive":true}"#,
            "active stands in the payload twice",
        ),
        (
            r#"{"appSessionId":"s","active":true,"appSessionId":"s"}"#,
            "appSessionId stands in the payload twice",
        ),
    ] {
        assert_eq!(interest(payload), Err(message.to_owned()), "{payload}");
    }
    let long = format!(r#"{{"appSessionId":"{}","active":true}}"#, "x".repeat(1025));
    assert_eq!(
        interest(&long),
        Err("appSessionId must have at most 1024 bytes".to_owned())
    );
    let missing = read_interest(None, &Limits::default());
    assert_eq!(missing, Err(InvalidTimeline::NotAnObject));
}

/// A payload of these members behind the two that never change here.
fn update_of(members: &str) -> String {
    format!(r#"{{"appSessionId":"s","settlementEpoch":1,{members}}}"#)
}

/// TL-5: the key and the version; a null thread is none, an empty one is a thread; numbers up to
/// 2^53-1.
#[test]
fn updates_are_read() {
    let max = MAX_VERSION_NUMBER;
    for (members, thread, revision, generation) in [
        (
            r#""revision":0,"authorizationGeneration":1"#.to_owned(),
            None,
            0,
            1,
        ),
        (
            format!(r#""threadId":null,"revision":{max},"authorizationGeneration":7"#),
            None,
            max,
            7,
        ),
        (
            format!(
                r#""threadId":"","author\u0069zationGeneration":{},"revision":2"#,
                u64::MAX
            ),
            Some(""),
            2,
            u64::MAX,
        ),
        (
            r#""authorizationGeneration":3,"threadId":" t\n","revision":2"#.to_owned(),
            Some(" t\n"),
            2,
            3,
        ),
    ] {
        let payload = raw(&update_of(&members));
        let update = read_update(Some(&payload), &Limits::default()).unwrap();
        assert_eq!(update.key.session.as_str(), "s");
        assert_eq!(update.key.thread.as_deref(), thread);
        assert_eq!(update.version.settlement_epoch, 1);
        assert_eq!(update.version.revision, revision);
        assert_eq!(update.generation.get(), generation);
    }
}

/// TL-5, TL-6, TR-7: what is answered, and what is dropped in silence. A defect elsewhere weighs more
/// than a missing generation.
#[test]
fn updates_that_are_wrong() {
    let limits = Limits::default();
    let invalid = |field, expected| Err(NotAnUpdate::Invalid(ill_typed(field, expected)));
    let integer = "an integer from 0 to 2^53-1";
    let generation = r#","authorizationGeneration":1"#;
    for number in [
        "-1",
        "-0",
        "1.0",
        "1e3",
        "9007199254740992",
        "99999999999999999999",
        "\"1\"",
        "null",
        "[1]",
        "true",
    ] {
        for more in ["", generation] {
            let payload = raw(&update_of(&format!(r#""revision":{number}{more}"#)));
            let read = read_update(Some(&payload), &limits);
            assert_eq!(read, invalid(REVISION, integer), "{payload}");
        }
        let members = format!(r#""revision":1,"authorizationGeneration":{number}"#);
        let payload = raw(&update_of(&members));
        let expected = match read_update(Some(&payload), &limits) {
            Ok(update) => update.generation.get().to_string(),
            Err(error) => {
                assert_eq!(error, NotAnUpdate::Unauthorized, "{payload}");
                continue;
            }
        };
        assert_eq!(expected, number, "a large one is a number all the same");
    }
    for (members, expected) in [
        (r#""revision":1"#, Err(NotAnUpdate::Unauthorized)),
        (
            r#""revision":1,"authorizationGeneration":0"#,
            Err(NotAnUpdate::Unauthorized),
        ),
        (
            r#""x":{"authorizationGeneration":1},"revision":1"#,
            Err(NotAnUpdate::Unauthorized),
        ),
        (
            r#""authorizationGeneration":1"#,
            Err(InvalidTimeline::Missing { field: REVISION }.into()),
        ),
        (r#""revision":1,"threadId":5"#, invalid(THREAD, "a string")),
        (
            r#""revision":1,"authorizationGeneration":1,"\u0061uthorizationGeneration":"x""#,
            Err(InvalidTimeline::Twice { field: GENERATION }.into()),
        ),
        (
            r#""revision":1,"threadId":null,"threadId":"t""#,
            Err(InvalidTimeline::Twice { field: THREAD }.into()),
        ),
    ] {
        let payload = raw(&update_of(members));
        assert_eq!(read_update(Some(&payload), &limits), expected, "{payload}");
    }
    let max = limits.timeline_session_id;
    for (length, fits) in [(max, true), (max + 1, false)] {
        let members = format!(
            r#""threadId":"{}","revision":1{generation}"#,
            "x".repeat(length)
        );
        let payload = raw(&update_of(&members));
        let read = read_update(Some(&payload), &limits);
        if fits {
            assert!(read.is_ok());
        } else {
            assert_eq!(read, Err(InvalidTimeline::ThreadTooLong { max }.into()));
        }
    }
    for nothing in [None, Some(&*raw("[]"))] {
        assert_eq!(
            read_update(nothing, &limits),
            Err(InvalidTimeline::NotAnObject.into())
        );
    }
}

/// The members of an object's text, each as the range from its key to the end of its value, and the
/// places of the commas between them: a plain walk over the bytes that shares nothing with the code
/// that it judges.
fn scan(object: &str) -> (Vec<(usize, usize)>, Vec<usize>) {
    let (mut members, mut commas) = (Vec::new(), Vec::new());
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    let mut current: Option<(usize, usize)> = None;
    for (at, byte) in object.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => in_string = true,
                b'{' | b'[' => {
                    depth += 1;
                    if depth == 1 {
                        continue;
                    }
                }
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        continue;
                    }
                }
                b',' if depth == 1 => {
                    members.extend(current.take());
                    commas.push(at);
                    continue;
                }
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                _ => {}
            }
        }
        let from = current.map_or(at, |(from, _)| from);
        current = Some((from, at + 1));
    }
    members.extend(current);
    (members, commas)
}

/// A key's text without its escapes; half a surrogate pair becomes a question mark.
fn plain_key(member: &str) -> String {
    let mut key = String::new();
    let mut characters = member[1..].chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return key,
            '\\' => match characters.next() {
                Some('u') => {
                    let hex: String = characters.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&hex, 16).unwrap();
                    key.push(char::from_u32(code).unwrap_or('?'));
                }
                Some(other) => key.push(other),
                None => panic!("{member}"),
            },
            other => key.push(other),
        }
    }
    panic!("{member}");
}

/// `object` byte by byte, without its member `name` and one comma.
fn without(object: &str, name: &str) -> String {
    let (members, commas) = scan(object);
    let index = members
        .iter()
        .position(|(from, to)| plain_key(&object[*from..*to]) == name)
        .unwrap();
    let (from, to) = members[index];
    let comma = match index {
        0 => commas.first(),
        _ => commas.get(index - 1),
    };
    let kept = object
        .bytes()
        .enumerate()
        .filter(|(at, _)| !(from..to).contains(at) && Some(at) != comma);
    String::from_utf8(kept.map(|(_, byte)| byte).collect()).unwrap()
}

const REQUIRED: [&str; 3] = [
    r#""appSessionId":"s""#,
    r#""settlementEpoch" :1"#,
    r#""revision":
2"#,
];

fn any_space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "", " ", "\n", "\t\r\n  "])
}

fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "0",
            "-0.0e-7",
            "1e999",
            "123456789012345678901234567890.10",
            r#""""#,
            r#""\"},{\\""#,
            r#""\ud800\u0000""#,
            "\"é\u{1F600}\u{2028}, :\"",
            r#""authorizationGeneration""#,
            r#""\"authorizationGeneration\":1,""#,
        ])
        .prop_map(str::to_owned),
        "[a-z ]{0,12}".prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let member = ("authorizationGeneration|revision|[a-z]{0,3}", inner.clone());
        prop_oneof![
            (prop::collection::vec(member, 0..4), any_space()).prop_map(|(members, space)| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(key, value)| format!("{space}\"{key}\"{space}:{value}{space}"))
                    .collect();
                format!("{{{space}{}}}", members.join(","))
            }),
            (prop::collection::vec(inner, 0..4), any_space()).prop_map(|(items, space)| format!(
                "[{space}{}]",
                items.join(&format!("{space},"))
            )),
        ]
    })
}

/// A member that the relay does not know; its key may stand there twice.
fn any_other() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        "[a-zé]{0,4}",
        prop::sample::select(vec![
            "a",
            r#"\ud800"#,
            r#"\\"#,
            r#"\""#,
            "AuthorizationGeneration",
            "authorizationGeneration ",
            r#"\\u0061uthorizationGeneration"#,
        ])
        .prop_map(str::to_owned),
    ];
    (key, any_space(), any_value())
        .prop_map(|(key, space, value)| format!("\"{key}\"{space}:{space}{value}"))
}

fn any_generation() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "authorizationGeneration",
        r#"author\u0069zationGeneration"#,
        r#"\u0061uthorizationGeneratio\u006e"#,
    ]);
    (key, any_space(), any_space(), 1..=u64::MAX)
        .prop_map(|(key, before, after, number)| format!("\"{key}\"{before}:{after}{number}"))
}

/// The text of a payload, with its generation anywhere among the others.
fn any_payload() -> impl Strategy<Value = String> {
    (
        prop::collection::vec(any_other(), 0..5),
        any_generation(),
        prop::collection::vec(any_space(), 18),
        any::<prop::sample::Index>(),
        any::<bool>(),
    )
        .prop_flat_map(|(mut members, generation, spaces, place, last)| {
            members.extend(REQUIRED.map(str::to_owned));
            (
                Just(members).prop_shuffle(),
                Just((generation, spaces, place, last)),
            )
        })
        .prop_map(|(mut members, (generation, spaces, place, last))| {
            let place = if last {
                members.len()
            } else {
                place.index(members.len())
            };
            members.insert(place, generation);
            let members: Vec<_> = members
                .iter()
                .zip(spaces.chunks(2))
                .map(|(member, space)| format!("{}{member}{}", space[0], space[1]))
                .collect();
            format!("{{{}}}", members.join(","))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// TL-6, TR-8: whatever the payload, one member and one comma are gone, every other byte stays,
    /// and the rest is JSON.
    #[test]
    fn the_cut_takes_one_member_and_one_comma(text in any_payload()) {
        let payload = raw(&text);
        let update = read_update(Some(&payload), &Limits::default());
        let update = match update {
            Ok(update) => update,
            Err(error) => return Err(TestCaseError::fail(format!("{text}: {error}"))),
        };
        let kept = update.cut.pieces().concat();
        prop_assert_eq!(&kept, &without(&text, GENERATION));
        prop_assert_eq!(kept.len(), update.cut.len());
        prop_assert!(serde_json::from_str::<&RawValue>(&kept).is_ok(), "{}", kept);
    }
}

/// TL-6: the cut at each place, for the eye. The comma before goes, else the one behind; white space
/// stays.
#[test]
fn cuts_by_hand() {
    for (object, kept) in [
        ("{K:1}", "{}"),
        ("{ K : 1\n}", "{ \n}"),
        ("{K:1,\"a\":2}", "{\"a\":2}"),
        ("{ K:1 ,\t\"a\":2}", "{  \t\"a\":2}"),
        ("{\"a\":2,K:1}", "{\"a\":2}"),
        ("{\"a\":2 , K :1 }", "{\"a\":2   }"),
        (
            "{\"a\":{K:3},K:1,\"b\":[{K:1}]}",
            "{\"a\":{K:3},\"b\":[{K:1}]}",
        ),
    ] {
        let key = format!("\"{GENERATION}\"");
        let object = raw(&object.replace('K', &key));
        let [member] = members(Some(&object), [GENERATION]).unwrap();
        let member = member.unwrap();
        let cut = Cut::without(object.get(), member.key.get(), member.value.get());
        assert_eq!(cut.pieces().concat(), kept.replace('K', &key), "{object}");
        assert!(!cut.is_empty());
    }
}

fn sender() -> DeviceId {
    "123e4567-e89b-12d3-a456-426614174000".parse().unwrap()
}

/// A whole message with this payload, and the snapshot that phones get of it at `second`.
fn snapshot(payload: &str, second: i64) -> (Bytes, Snapshot) {
    let text = format!(
        r#"{{"type":"event","payload":{{"eventType":"chat:timeline-updated","payload":{payload}}}}}"#
    );
    let source = Bytes::from(text);
    let text = std::str::from_utf8(&source).unwrap();
    let Ok(ClientFrame::Event(event)) = ClientFrame::read(text) else {
        panic!("{text}");
    };
    let update = read_update(event.shape.unwrap().payload, &Limits::default()).unwrap();
    let now = Timestamp::from_unix_micros(second * 1_000_000);
    let snapshot = timeline_update(&update, &source, sender(), now);
    (source, snapshot)
}

/// ENV-1, TL-5: the frame of a snapshot, small or large, with the generation in front, in the middle
/// and behind.
#[test]
fn snapshots_are_forwarded_without_the_generation() {
    let fill = |length| "x".repeat(length);
    for (before, after) in [(0, 0), (10, 10), (5_000, 10), (10, 5_000), (4_000, 4_000)] {
        let (before, after) = (fill(before), fill(after));
        let head = format!(r#"{{"appSessionId":"s","a":"{before}","#);
        let tail = format!(r#" "settlementEpoch":1,"revision":2,"b":"{after}" }}"#);
        let (_, snapshot) = snapshot(&format!(r#"{head}"authorizationGeneration":4,{tail}"#), 0);
        let expected = format!(
            r#"{{"type":"event","sourceDeviceId":"{}","timestamp":"1970-01-01T00:00:00.000000Z","payload":{{"eventType":"chat:timeline-updated","payload":{head}{tail}}}}}"#,
            sender()
        );
        assert_eq!(snapshot.text.to_text(), expected);
        assert_eq!(snapshot.text.len(), expected.len());
        assert_eq!(snapshot.version.revision, 2);
    }
}

/// TR-8: the longer side of a large payload is not copied, whichever it is; a small payload keeps
/// nothing of its message alive, nor does a payload that is a small part of it.
#[test]
fn the_longer_side_is_shared() {
    let is_shared = |payload: &str| {
        let (source, snapshot) = snapshot(payload, 0);
        let range = source.as_ptr().addr()..source.as_ptr().addr() + source.len();
        let shared = snapshot
            .text
            .pieces()
            .into_iter()
            .filter(|piece| !piece.is_empty() && range.contains(&piece.as_ptr().addr()))
            .map(<[u8]>::len)
            .sum::<usize>();
        drop(snapshot);
        shared
    };
    let rest = r#""appSessionId":"s","settlementEpoch":1,"revision":2,"x":"#;
    let generation = r#""authorizationGeneration":4"#;
    let large = format!("\"{}\"", "x".repeat(3_000));
    assert!(is_shared(&format!("{{{generation},{rest}{large}}}")) > 3_000);
    assert!(is_shared(&format!("{{{rest}{large},{generation}}}")) > 3_000);
    assert_eq!(is_shared(&format!("{{{rest}1,{generation}}}")), 0);
    let padding = " ".repeat(20_000);
    assert_eq!(
        is_shared(&format!("{{{rest}{large},{padding}{generation}}}")),
        0
    );
}

/// TL-9: the same payload is the same whenever it came, wherever its generation stood and whatever it
/// was; one byte more or another is not.
#[test]
fn payloads_are_compared_byte_for_byte() {
    for length in [1, 5_000] {
        let x = "x".repeat(length);
        let rest = format!(r#""appSessionId":"s","settlementEpoch":1,"revision":2,"x":"{x}""#);
        let (_, front) = snapshot(&format!(r#"{{"authorizationGeneration":4,{rest}}}"#), 1);
        let (_, back) = snapshot(&format!(r#"{{{rest},"authorizationGeneration":55555}}"#), 2);
        let middle = rest.replace(r#""revi"#, r#""authorizationGeneration":6,"revi"#);
        let (_, middle) = snapshot(&format!("{{{middle}}}"), 3);
        for (one, other) in [(&front, &back), (&back, &middle), (&middle, &front)] {
            assert!(one.same_payload(other) && other.same_payload(one));
            assert_ne!(one.text.to_text(), other.text.to_text(), "other times");
        }
        for other in [format!("{rest} "), rest.replace("\"x\":\"x", "\"x\":\"y")] {
            let (_, other) = snapshot(&format!(r#"{{"authorizationGeneration":4,{other}}}"#), 1);
            for same in [&front, &back, &middle] {
                assert!(!same.same_payload(&other) && !other.same_payload(same));
            }
        }
    }
}

fn key(session: &str, thread: Option<&str>) -> TimelineKey {
    TimelineKey {
        session: BaseSession::read(session, &Limits::default()).unwrap(),
        thread: thread.map(Into::into),
    }
}

/// TL-7, ENV-1: the state of a session's leases, with and without one.
#[test]
fn lease_states_on_the_wire() {
    let instance = RelayInstanceId::from_uuid(*sender().as_uuid());
    let now = Timestamp::from_unix_micros(1);
    let mut state = LeaseState {
        session: key("a\"b", None).session,
        expires_at: Some(Timestamp::from_unix_micros(60_000_001)),
        generation: NonZeroU64::new(7).map(AuthorizationGeneration::new),
        revision: 9,
    };
    let expected = |fields: &str| {
        format!(
            r#"{{"type":"event","sourceDeviceId":null,"timestamp":"1970-01-01T00:00:00.000001Z","payload":{{"eventType":"chat:timeline-interest-updated","payload":{{"appSessionId":"a\"b",{fields},"revision":9,"relayInstanceId":"{instance}"}}}}}}"#
        )
    };
    assert_eq!(
        timeline_interest_updated(&state, instance, now).to_text(),
        expected(
            r#""active":true,"expiresAt":"1970-01-01T00:01:00.000001Z","authorizationGeneration":7"#
        )
    );
    (state.expires_at, state.generation) = (None, None);
    assert_eq!(
        timeline_interest_updated(&state, instance, now).to_text(),
        expected(r#""active":false,"expiresAt":null,"authorizationGeneration":null"#)
    );
}

/// TL-13, ENV-1: windows to load again, one by one or all.
#[test]
fn stale_windows_on_the_wire() {
    let now = Timestamp::from_unix_micros(0);
    let version = TimelineVersion {
        settlement_epoch: 3,
        revision: MAX_VERSION_NUMBER,
    };
    let expected = |payload: &str| {
        format!(
            r#"{{"type":"event","sourceDeviceId":null,"timestamp":"1970-01-01T00:00:00.000000Z","payload":{{"eventType":"chat:timeline-stale","payload":{payload}}}}}"#
        )
    };
    for (thread, written) in [(None, "null"), (Some("t\n"), r#""t\n""#)] {
        assert_eq!(
            timeline_stale(&key("s", thread), version, now).to_text(),
            expected(&format!(
                r#"{{"appSessionId":"s","threadId":{written},"settlementEpoch":3,"revision":{MAX_VERSION_NUMBER}}}"#
            ))
        );
    }
    assert_eq!(
        timeline_all_stale(now).to_text(),
        expected(r#"{"all":true}"#)
    );
}
