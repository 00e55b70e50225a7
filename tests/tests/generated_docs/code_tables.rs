//! The tables of `docs/protocol/codes.md`, from the enums of the codes.

use std::fmt::Write as _;

use relay_model::wire::codes::{AfterError, CloseCode, ErrorCode, RetryClass, RpcErrorCode};

use crate::pages;

#[test]
fn tables_are_those_of_the_code() {
    pages::keep_current(
        "protocol/codes.md",
        &[
            (
                "error-codes-that-keep-the-connection",
                errors_that_keep_the_connection(),
            ),
            ("error-codes-that-refuse", errors_that_refuse()),
            ("close-codes", close_codes()),
            ("rpc-error-codes", rpc_error_codes()),
        ],
    );
}

/// A code that exists is not announced as missing.
#[test]
fn no_built_code_is_listed_as_planned() {
    let page = pages::page_text("protocol/codes.md");
    let (_, planned) = page
        .split_once("not built yet:")
        .expect("the page lists what is planned");
    let (planned, _) = planned
        .split_once("\n## ")
        .expect("another section follows");
    for code in ErrorCode::ALL {
        let row = format!("| `{}` |", code.code());
        assert!(
            !planned.contains(&row),
            "`{}` is built; take it off the list",
            code.code()
        );
    }
}

fn errors_that_keep_the_connection() -> String {
    let mut table = "| code | meaning |\n|---|---|\n".to_owned();
    for code in ErrorCode::ALL
        .iter()
        .filter(|code| code.after() == AfterError::GoesOn)
    {
        let _ = writeln!(table, "| `{}` | {} |", code.code(), code.meaning());
    }
    table
}

fn errors_that_refuse() -> String {
    let mut table = "| code | meaning | close |\n|---|---|---|\n".to_owned();
    for code in ErrorCode::ALL
        .iter()
        .filter(|code| code.after() != AfterError::GoesOn)
    {
        let close = match code.after() {
            AfterError::Closes(close) => close.code().to_string(),
            AfterError::RegistersAgain | AfterError::GoesOn => "stays open".to_owned(),
        };
        let _ = writeln!(
            table,
            "| `{}` | {} | {close} |",
            code.code(),
            code.meaning()
        );
    }
    table
}

fn close_codes() -> String {
    let mut table = "| code | meaning | the client |\n|---|---|---|\n".to_owned();
    for code in CloseCode::ALL {
        let client = match code.retry() {
            RetryClass::Reconnect => "reconnects",
            RetryClass::RenewFirst => "renews its credentials, then reconnects",
            RetryClass::Wait => "waits for a person or a change",
        };
        let _ = writeln!(table, "| {} | {} | {client} |", code.code(), code.meaning());
    }
    table
}

fn rpc_error_codes() -> String {
    let mut table = "| code | message |\n|---|---|\n".to_owned();
    for code in RpcErrorCode::ALL {
        let _ = writeln!(table, "| {} | {} |", code.code(), code.meaning());
    }
    table
}
