//! Names and versions that devices give themselves (HTTP-3): trimmed, never empty, never endless.

use relay_model::limits::NAME_CHARACTERS;

use relay_model::push::PushToken;

use crate::refusal::Refusal;

/// A trimmed text of 1 to 255 characters; `field` is named when it is not.
///
/// # Errors
/// When nothing is left after trimming, or too much, or there is a NUL, which PostgreSQL cannot keep.
pub(super) fn checked(field: &str, text: &str) -> Result<String, Refusal> {
    let trimmed = text.trim();
    if trimmed.contains('\0') {
        return Err(Refusal::InvalidPayload(
            format!("{field} must not have a NUL character").into(),
        ));
    }
    if (1..=NAME_CHARACTERS).contains(&trimmed.chars().count()) {
        Ok(trimmed.to_owned())
    } else {
        Err(Refusal::InvalidPayload(
            format!("{field} must have 1 to {NAME_CHARACTERS} characters").into(),
        ))
    }
}

/// A desktop's name, which people choose it by: `unknown`, which apps send when they failed to find
/// one, is none.
///
/// # Errors
/// As [`checked`], and for `unknown` in any case.
pub(super) fn desktop_name(text: &str) -> Result<String, Refusal> {
    let name = checked("deviceName", text)?;
    if name.eq_ignore_ascii_case("unknown") {
        return Err(Refusal::InvalidPayload(
            "deviceName must be a name; \"unknown\" is none".into(),
        ));
    }
    Ok(name)
}

/// A push token; `field` is named when it is none. It is not repeated (PUSH-5).
///
/// # Errors
/// When it is empty, too long or not visible ASCII.
pub(super) fn push_token(field: &str, text: &str) -> Result<PushToken, Refusal> {
    text.parse::<PushToken>()
        .map_err(|error| Refusal::InvalidPayload(format!("{field} {error}").into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTTP-3: trimmed, 1 to 255 characters, counted as characters and not as bytes.
    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(
            checked("deviceName", "  My Mac \n"),
            Ok("My Mac".to_owned())
        );
        let longest = "é".repeat(NAME_CHARACTERS);
        assert_eq!(
            checked("deviceName", &format!(" {longest} ")),
            Ok(longest.clone())
        );
        for bad in ["", " \t\u{3000}", &format!("{longest}x"), "a\0b"] {
            let refusal = checked("deviceName", bad).unwrap_err();
            assert!(refusal.to_string().contains("deviceName"), "{refusal}");
        }
    }

    /// HTTP-3: `unknown` is no name of a desktop.
    #[test]
    fn unknown_is_no_desktop_name() {
        for bad in ["unknown", " UNKNOWN ", "Unknown"] {
            assert!(desktop_name(bad).is_err(), "{bad}");
        }
        assert_eq!(desktop_name("unknown 2"), Ok("unknown 2".to_owned()));
    }
}
