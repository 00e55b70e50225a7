//! The frames of RPC as tests write and expect them (section 6).

use serde_json::{Value, json};

/// A phone's request.
pub fn rpc_request(id: &str, method: &str, params: Value) -> Value {
    json!({
        "type": "rpc.request",
        "payload": { "id": id, "method": method, "params": params },
    })
}

/// A desktop's answer.
pub fn rpc_response(id: &str, result: Value, is_final: bool) -> Value {
    json!({
        "type": "rpc.response",
        "payload": { "id": id, "result": result, "isFinal": is_final },
    })
}

/// The payload of an error of the relay's own (RPC-5).
pub fn failure(id: &str, code: i64, message: &str, retryable: bool, delivered: bool) -> Value {
    json!({
        "id": id,
        "result": null,
        "error": {
            "code": code,
            "message": message,
            "data": { "retryable": retryable, "delivered": delivered },
        },
        "isFinal": true,
    })
}

/// What a phone is answered whose request may have reached a desktop that is away (RPC-4), or did
/// not.
pub fn pending(id: &str, delivered: bool) -> Value {
    failure(id, -32011, "Desktop is reconnecting", !delivered, delivered)
}
