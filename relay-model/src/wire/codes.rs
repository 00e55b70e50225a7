//! The codes of the protocol as enums: error frames (ENV-3, REG-4), close codes (section 1) and RPC
//! errors (RPC-5). Each variant's doc line is its meaning in `docs/protocol/`, which a test compares.

/// Builds an enum of codes with its table, so that a code, its number or word and its meaning stand
/// in one line.
macro_rules! codes {
    (
        $(#[$enum_doc:meta])*
        $name:ident: $repr:ty {
            $( $variant:ident = $code:literal, $doc:literal; )+
        }
    ) => {
        $(#[$enum_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( #[doc = $doc] $variant, )+
        }

        impl $name {
            /// Every code, in the order of the tables.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The code as it stands on the wire.
            pub const fn code(self) -> $repr {
                match self { $(Self::$variant => $code,)+ }
            }

            /// What it means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $doc,)+ }
            }
        }
    };
}

codes! {
    /// `code` of an `error` frame.
    ErrorCode: &'static str {
        InvalidJson = "invalidJson", "The frame is not JSON.";
        InvalidPayload = "invalidPayload", "A field is missing, ill-typed or given twice; the message names it.";
        UnknownMessageType = "unknownMessageType", "The frame's type is not part of this protocol.";
        UnsupportedFrame = "unsupportedFrame", "Binary messages are not part of this protocol.";
        RegistrationRequired = "registrationRequired", "The connection has to register first.";
        AuthRequired = "authRequired", "The token is not a valid one of this account; the connection keeps its old expiry.";
        Forbidden = "forbidden", "This client may not send that.";
        ReservedEventType = "reservedEventType", "Events of this type are written by the relay only.";
        RelayDraining = "relayDraining", "The relay drains for a deploy; connect again with jitter.";
        InvalidClientType = "invalidClientType", "X-Client-Type must be desktop or mobile.";
        InvalidDeviceId = "invalidDeviceId", "The device id is not a UUID, or not the one of this connection.";
        InvalidProtocolVersion = "invalidProtocolVersion", "relayProtocolVersion must be an integer or a string of 1 to 9 ASCII digits.";
        RelayUnavailable = "relayUnavailable", "The relay could not read or write its database; try again later.";
        ProtocolVersionUnsupported = "protocolVersionUnsupported", "relayProtocolVersion is missing or too old; update the app.";
        DeviceNotRegistered = "deviceNotRegistered", "No such device; register it over HTTP first.";
        DeviceOwnershipFailed = "deviceOwnershipFailed", "The device belongs to another account.";
        DeviceTypeMismatch = "deviceTypeMismatch", "The device was registered as the other client type.";
        DesktopForgotten = "desktopForgotten", "The device was forgotten in its account.";
        DesktopNotEligible = "desktopNotEligible", "The desktop is not admitted to the relay.";
        InvalidTargetDesktop = "invalidTargetDesktop", "The target is not a desktop of this account.";
        InvalidResume = "invalidResume", "The session cannot be resumed; register again without resumeToken.";
    }
}

codes! {
    /// WebSocket close codes that the relay sends.
    CloseCode: u16 {
        Normal = 1000, "The connection is done.";
        ProtocolError = 1002, "The peer broke the WebSocket protocol.";
        InvalidUtf8 = 1007, "A text message is not UTF-8.";
        RegistrationRefused = 1008, "The registration was refused; the error frame before says why.";
        TooLarge = 1009, "A message exceeds the limit.";
        ServerFault = 1011, "The relay could not do its part.";
        Draining = 1012, "The relay drains; reconnect with jitter.";
        CredentialsEnded = 4401, "The credentials expired or were revoked.";
        DeviceRemoved = 4403, "The device was forgotten or hidden.";
        RegistrationTimeout = 4408, "The connection did not register in time.";
        Retired = 4409, "The connection could not keep up, or conflicted; reconnect and reconcile.";
        Replaced = 4410, "A newer connection of the same device took over.";
        Silent = 4411, "Nothing came from the peer for too long.";
    }
}

/// What a client does after a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryClass {
    /// Reconnect, with backoff.
    Reconnect,
    /// Renew the credentials, then reconnect.
    RenewFirst,
    /// Wait for a person or a change.
    Wait,
}

impl CloseCode {
    /// What a client does after it (section 1).
    pub const fn retry(self) -> RetryClass {
        match self {
            Self::ServerFault
            | Self::Draining
            | Self::RegistrationTimeout
            | Self::Retired
            | Self::Silent => RetryClass::Reconnect,
            Self::CredentialsEnded => RetryClass::RenewFirst,
            Self::Normal
            | Self::ProtocolError
            | Self::InvalidUtf8
            | Self::RegistrationRefused
            | Self::TooLarge
            | Self::DeviceRemoved
            | Self::Replaced => RetryClass::Wait,
        }
    }
}

codes! {
    /// `error.code` of an RPC error that the relay itself answers with.
    RpcErrorCode: i32 {
        DesktopOffline = -32010, "Desktop is offline";
        DesktopReconnecting = -32011, "Desktop is reconnecting";
        DesktopCongested = -32012, "Desktop is congested";
        RateLimited = -32028, "Rate limit exceeded";
        InvalidRequest = -32600, "Invalid request";
        NotAllowed = -32601, "Not allowed";
    }
}

/// What becomes of a connection after an `error` frame (REG-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterError {
    /// The connection goes on: the frame had no effect.
    GoesOn,
    /// A registration was refused: the connection is closed with this code.
    Closes(CloseCode),
    /// A resume was refused: the client registers again, on the same connection.
    RegistersAgain,
}

impl ErrorCode {
    /// What becomes of the connection after this error.
    pub const fn after(self) -> AfterError {
        match self {
            Self::InvalidJson
            | Self::InvalidPayload
            | Self::UnknownMessageType
            | Self::UnsupportedFrame
            | Self::RegistrationRequired
            | Self::AuthRequired
            | Self::Forbidden
            | Self::ReservedEventType => AfterError::GoesOn,
            Self::InvalidResume => AfterError::RegistersAgain,
            Self::RelayDraining => AfterError::Closes(CloseCode::Draining),
            Self::RelayUnavailable => AfterError::Closes(CloseCode::ServerFault),
            Self::DesktopForgotten | Self::DesktopNotEligible => {
                AfterError::Closes(CloseCode::DeviceRemoved)
            }
            Self::InvalidClientType
            | Self::InvalidDeviceId
            | Self::InvalidProtocolVersion
            | Self::ProtocolVersionUnsupported
            | Self::DeviceNotRegistered
            | Self::DeviceOwnershipFailed
            | Self::DeviceTypeMismatch
            | Self::InvalidTargetDesktop => AfterError::Closes(CloseCode::RegistrationRefused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// REG-4: the close that follows each refusal, by the first word of the code's family.
    #[test]
    fn refusals_close_as_the_table_says() {
        for &code in ErrorCode::ALL {
            let expected = match code.code() {
                "invalidJson"
                | "invalidPayload"
                | "unknownMessageType"
                | "unsupportedFrame"
                | "registrationRequired"
                | "authRequired"
                | "forbidden"
                | "reservedEventType" => AfterError::GoesOn,
                "invalidResume" => AfterError::RegistersAgain,
                "relayDraining" => AfterError::Closes(CloseCode::Draining),
                "relayUnavailable" => AfterError::Closes(CloseCode::ServerFault),
                "desktopForgotten" | "desktopNotEligible" => {
                    AfterError::Closes(CloseCode::DeviceRemoved)
                }
                _ => AfterError::Closes(CloseCode::RegistrationRefused),
            };
            assert_eq!(code.after(), expected, "{code:?}");
        }
    }

    /// ENV-2: no key or code that the relay writes contains `_`.
    #[test]
    fn error_codes_are_camel_case() {
        for code in ErrorCode::ALL {
            assert!(
                code.code().bytes().all(|byte| byte.is_ascii_alphabetic()),
                "{code:?}"
            );
        }
    }
}
