//! What a registration is checked against (REG-3 to REG-5). Pure: the facts come as arguments.

use relay_model::ids::{DeviceId, ResumeToken, SessionId};
use relay_model::store::{DeviceStanding, DeviceType, RegistrationFacts, TargetFacts};
use relay_model::wire::codes::ErrorCode;
use relay_model::wire::inbound::{ProtocolVersion, Register, TargetField};

use crate::relay::ConnectionOrigin;

/// A registration that passed all checks which need no database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// What the client says it is, by its upgrade header.
    pub(crate) device_type: DeviceType,
    /// The device that it says it is.
    pub(crate) device: DeviceId,
    /// The number that it says it speaks; `None` if it says nothing.
    version: Option<i64>,
    /// The desktop that a phone wants.
    target: TargetField,
    resume: Resume,
}

/// The session that a client wants to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Resume {
    No,
    /// Only half of what it takes, or something that no relay issued.
    Invalid,
    Yes(SessionId, ResumeToken),
}

/// A phone's target that passed the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// The desktop.
    pub(crate) desktop: DeviceId,
    /// What its row says.
    pub(crate) facts: TargetFacts,
}

impl Claim {
    /// Makes the checks that need no database. `registered` is the device of an earlier registration
    /// on the same socket (REG-10).
    ///
    /// # Errors
    /// The refusal's code.
    pub(crate) fn new(
        register: &Register<'_>,
        origin: &ConnectionOrigin,
        registered: Option<DeviceId>,
    ) -> Result<Self, ErrorCode> {
        let device_type = origin.client_type.ok_or(ErrorCode::InvalidClientType)?;
        let device: DeviceId = register
            .device_id
            .parse()
            .map_err(|_| ErrorCode::InvalidDeviceId)?;
        let header = origin
            .device_header
            .as_deref()
            .filter(|header| !header.is_empty());
        let header_differs = header.is_some_and(|header| header.parse() != Ok(device));
        if header_differs || registered.is_some_and(|registered| registered != device) {
            return Err(ErrorCode::InvalidDeviceId);
        }
        let version = match register.protocol_version {
            ProtocolVersion::Missing => None,
            ProtocolVersion::Number(number) => Some(number),
            ProtocolVersion::Invalid => return Err(ErrorCode::InvalidProtocolVersion),
        };
        Ok(Self {
            device_type,
            device,
            version,
            target: target_field(register, origin, device_type),
            resume: resume(register),
        })
    }

    /// The desktop whose row is needed for the checks.
    pub(crate) fn target_to_read(&self) -> Option<DeviceId> {
        match self.target {
            TargetField::Device(desktop) => Some(desktop),
            TargetField::Absent | TargetField::Invalid => None,
        }
    }

    /// Makes the checks against the database, in the order of REG-4, and returns the target.
    ///
    /// # Errors
    /// The refusal's code.
    pub(crate) fn check(&self, facts: &RegistrationFacts) -> Result<Option<Target>, ErrorCode> {
        // A floor of 0 turns the check off; a missing version counts as 0 (REG-9).
        let floor = i64::from(facts.protocol_floor);
        if floor > 0 && self.version.unwrap_or(0) < floor {
            return Err(ErrorCode::ProtocolVersionUnsupported);
        }
        match facts.device {
            DeviceStanding::Unknown => return Err(ErrorCode::DeviceNotRegistered),
            DeviceStanding::Foreign => return Err(ErrorCode::DeviceOwnershipFailed),
            DeviceStanding::Owned {
                device_type,
                forgotten,
                relay_eligible,
            } => {
                if device_type != self.device_type {
                    return Err(ErrorCode::DeviceTypeMismatch);
                }
                if forgotten {
                    return Err(ErrorCode::DesktopForgotten);
                }
                if device_type == DeviceType::Desktop && !relay_eligible {
                    return Err(ErrorCode::DesktopNotEligible);
                }
            }
        }
        match (self.target, facts.target) {
            (TargetField::Absent, _) => Ok(None),
            (TargetField::Device(desktop), Some(facts)) => Ok(Some(Target { desktop, facts })),
            (TargetField::Device(_), None) | (TargetField::Invalid, _) => {
                Err(ErrorCode::InvalidTargetDesktop)
            }
        }
    }

    /// The session to go on with, if one was asked for: the last check, made by SessionActor.
    ///
    /// # Errors
    /// `invalidResume` if what was sent cannot name a session.
    pub(crate) fn resume(&self) -> Result<Option<(SessionId, &ResumeToken)>, ErrorCode> {
        match &self.resume {
            Resume::No => Ok(None),
            Resume::Invalid => Err(ErrorCode::InvalidResume),
            Resume::Yes(session, token) => Ok(Some((*session, token))),
        }
    }
}

/// The payload decides if it says anything, else the upgrade header; a desktop has no target (REG-5).
fn target_field(
    register: &Register<'_>,
    origin: &ConnectionOrigin,
    device_type: DeviceType,
) -> TargetField {
    match (device_type, register.target) {
        (DeviceType::Desktop, _) => TargetField::Absent,
        (DeviceType::Mobile, TargetField::Absent) => {
            TargetField::from_text(origin.target_header.as_deref().unwrap_or_default())
        }
        (DeviceType::Mobile, sent) => sent,
    }
}

fn resume(register: &Register<'_>) -> Resume {
    match (&register.session_id, &register.resume_token) {
        (None, None) => Resume::No,
        (Some(session), Some(token)) => match (session.parse(), token.parse()) {
            (Ok(session), Ok(token)) => Resume::Yes(session, token),
            _ => Resume::Invalid,
        },
        _ => Resume::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use relay_model::credentials::Credentials;
    use relay_model::ids::AccountId;
    use relay_model::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    const DEVICE: &str = "123e4567-e89b-12d3-a456-426614174000";
    const TARGET: &str = "223e4567-e89b-12d3-a456-426614174000";

    fn origin(client_type: Option<DeviceType>) -> ConnectionOrigin {
        ConnectionOrigin {
            account: AccountId::from_uuid(Uuid::nil()),
            credentials: Credentials::UserToken {
                expires_at: Timestamp::from_unix_micros(i64::MAX),
            },
            client_type,
            device_header: None,
            target_header: None,
            peer: None,
        }
    }

    fn phone() -> ConnectionOrigin {
        origin(Some(DeviceType::Mobile))
    }

    fn register() -> Register<'static> {
        Register {
            device_id: DEVICE.into(),
            protocol_version: ProtocolVersion::Number(1),
            target: TargetField::Absent,
            session_id: None,
            resume_token: None,
        }
    }

    fn facts() -> RegistrationFacts {
        RegistrationFacts {
            protocol_floor: 1,
            device: DeviceStanding::Owned {
                device_type: DeviceType::Mobile,
                forgotten: false,
                relay_eligible: true,
            },
            target: None,
        }
    }

    /// REG-4: client type, device id and protocol version, in this order.
    #[test]
    fn checks_without_the_database_come_in_order() {
        let mut bad = Register {
            device_id: "no uuid".into(),
            protocol_version: ProtocolVersion::Invalid,
            ..register()
        };
        let refused = |register: &Register<'_>, origin| Claim::new(register, &origin, None).err();
        assert_eq!(
            refused(&bad, origin(None)),
            Some(ErrorCode::InvalidClientType)
        );
        assert_eq!(refused(&bad, phone()), Some(ErrorCode::InvalidDeviceId));
        bad.device_id = DEVICE.into();
        assert_eq!(
            refused(&bad, phone()),
            Some(ErrorCode::InvalidProtocolVersion)
        );
        bad.protocol_version = ProtocolVersion::Missing;
        assert_eq!(refused(&bad, phone()), None);
    }

    /// TR-2, REG-10: the header and an earlier registration must name the same device.
    #[test]
    fn another_device_id_is_refused() {
        let header = |text: &str| ConnectionOrigin {
            device_header: Some(text.to_owned()),
            ..phone()
        };
        let code = |origin, registered| Claim::new(&register(), &origin, registered).err();
        assert_eq!(code(header(&DEVICE.to_uppercase()), None), None);
        assert_eq!(code(header(""), None), None);
        assert_eq!(code(header(TARGET), None), Some(ErrorCode::InvalidDeviceId));
        assert_eq!(code(header("x"), None), Some(ErrorCode::InvalidDeviceId));
        assert_eq!(code(phone(), DEVICE.parse().ok()), None);
        assert_eq!(
            code(phone(), TARGET.parse().ok()),
            Some(ErrorCode::InvalidDeviceId)
        );
    }

    /// REG-5: the payload's target wins over the header's, null and empty do not count, and a
    /// desktop has none.
    #[test]
    fn the_target_is_read_from_the_payload_else_from_the_header() {
        let header = |client_type| ConnectionOrigin {
            target_header: Some(TARGET.to_owned()),
            ..origin(Some(client_type))
        };
        let target = |register: &Register<'_>, origin: &ConnectionOrigin| {
            Claim::new(register, origin, None).unwrap().target
        };
        let (from_header, in_payload) = (TARGET.parse().unwrap(), DEVICE.parse().unwrap());
        let sent = Register {
            target: TargetField::Device(in_payload),
            ..register()
        };
        let phone_with_header = header(DeviceType::Mobile);
        assert_eq!(
            target(&register(), &phone_with_header),
            TargetField::Device(from_header)
        );
        assert_eq!(
            target(&sent, &phone_with_header),
            TargetField::Device(in_payload)
        );
        assert_eq!(
            target(&sent, &header(DeviceType::Desktop)),
            TargetField::Absent
        );
        assert_eq!(target(&register(), &phone()), TargetField::Absent);
    }

    /// REG-4, REG-9: the checks against the database, each hiding those behind it.
    #[test]
    fn checks_against_the_database_come_in_order() {
        let sent = Register {
            target: TargetField::Invalid,
            ..register()
        };
        let claim = Claim::new(&sent, &phone(), None).unwrap();
        let owned = |device_type, forgotten, relay_eligible| DeviceStanding::Owned {
            device_type,
            forgotten,
            relay_eligible,
        };
        let check = |protocol_floor, device| {
            claim
                .check(&RegistrationFacts {
                    protocol_floor,
                    device,
                    target: None,
                })
                .err()
        };
        use DeviceType::{Desktop, Mobile};
        let wrong_type = owned(Desktop, true, false);
        for (floor, device, code) in [
            (
                2,
                DeviceStanding::Unknown,
                ErrorCode::ProtocolVersionUnsupported,
            ),
            (1, DeviceStanding::Unknown, ErrorCode::DeviceNotRegistered),
            (1, DeviceStanding::Foreign, ErrorCode::DeviceOwnershipFailed),
            (1, wrong_type, ErrorCode::DeviceTypeMismatch),
            (1, owned(Mobile, true, false), ErrorCode::DesktopForgotten),
            (
                1,
                owned(Mobile, false, false),
                ErrorCode::InvalidTargetDesktop,
            ),
        ] {
            assert_eq!(check(floor, device), Some(code));
        }
        let desktop = Claim::new(&register(), &origin(Some(Desktop)), None).unwrap();
        let hidden = RegistrationFacts {
            device: owned(Desktop, false, false),
            ..facts()
        };
        assert_eq!(desktop.check(&hidden), Err(ErrorCode::DesktopNotEligible));
    }

    /// REG-9: 0 turns the check off, and a missing version counts as 0.
    #[test]
    fn the_floor_admits_what_it_should() {
        for (floor, version, admitted) in [
            (0, ProtocolVersion::Missing, true),
            (0, ProtocolVersion::Number(-5), true),
            (1, ProtocolVersion::Missing, false),
            (1, ProtocolVersion::Number(0), false),
            (1, ProtocolVersion::Number(1), true),
            (3, ProtocolVersion::Number(i64::MAX), true),
        ] {
            let sent = Register {
                protocol_version: version,
                ..register()
            };
            let claim = Claim::new(&sent, &phone(), None).unwrap();
            let checked = claim.check(&RegistrationFacts {
                protocol_floor: floor,
                ..facts()
            });
            assert_eq!(checked.is_ok(), admitted, "{floor} {version:?}");
        }
    }

    /// REG-4: half a resume, or one that no relay issued, is an invalid one.
    #[test]
    fn resumes_need_both_halves() {
        let token = ResumeToken::from_bytes([1; 32]);
        let resume = |session: Option<&str>, token: Option<String>| {
            let sent = Register {
                session_id: session.map(|session| session.to_owned().into()),
                resume_token: token.map(Into::into),
                ..register()
            };
            let claim = Claim::new(&sent, &phone(), None).unwrap();
            claim.resume().map(|resume| resume.is_some())
        };
        assert_eq!(resume(None, None), Ok(false));
        assert_eq!(resume(Some(TARGET), Some(token.reveal())), Ok(true));
        for (session, token) in [
            (Some(TARGET), None),
            (None, Some(token.reveal())),
            (Some("x"), Some(token.reveal())),
            (Some(TARGET), Some("x".to_owned())),
        ] {
            assert_eq!(resume(session, token), Err(ErrorCode::InvalidResume));
        }
    }
}
