//! The tables of `docs/operations/why-offline.md`, from the texts that the admin API explains with.

use std::fmt::Write as _;

use relay_actors::socket::EndReason;
use relay_http::admin_api::{offline_reason, refusal};
use relay_model::store::OfflineReason;
use relay_model::wire::codes::ErrorCode;

use crate::pages;

/// OP-9: every word that can explain a device is in the tables.
#[test]
fn tables_are_those_of_the_code() {
    pages::keep_current(
        "operations/why-offline.md",
        &[
            ("offline-reasons", offline_reasons()),
            ("close-reasons", close_reasons()),
            ("refusals", refusals()),
        ],
    );
}

fn offline_reasons() -> String {
    let mut table = "| `offlineReason` | means | what to do |\n|---|---|---|\n".to_owned();
    for reason in OfflineReason::ALL {
        let (meaning, advice) = offline_reason(*reason);
        let _ = writeln!(table, "| `{}` | {meaning} | {advice} |", reason.as_str());
    }
    table
}

fn close_reasons() -> String {
    let mut table =
        "| `reason` | side | close code | means | what to do |\n|---|---|---|---|---|\n".to_owned();
    for reason in EndReason::ALL {
        let code = match reason {
            EndReason::ByRelay(by_relay) if reason.as_str() != "refused" => {
                by_relay.code().code().to_string()
            }
            EndReason::ByRelay(_) => "1008, 1011, 1012 or 4403".to_owned(),
            EndReason::ProtocolViolation => "1002, 1007 or 1009".to_owned(),
            EndReason::ClientClosed => "the client's".to_owned(),
            _ => "none".to_owned(),
        };
        let _ = writeln!(
            table,
            "| `{}` | {} | {code} | {} | {} |",
            reason.as_str(),
            reason.side(),
            reason.meaning(),
            reason.advice()
        );
    }
    table
}

fn refusals() -> String {
    let mut table = "| `code` | means | what to do |\n|---|---|---|\n".to_owned();
    for code in ErrorCode::ALL {
        if let Some(advice) = refusal(*code) {
            let _ = writeln!(
                table,
                "| `{}` | {} | {advice} |",
                code.code(),
                code.meaning()
            );
        }
    }
    table
}
