//! What a push says (PUSH-2, PUSH-3). There are these two kinds and no others.

use relay_model::ids::{ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::limits::{PUSH_BODY_CHARACTERS, PUSH_TITLE_CHARACTERS};

/// The contents of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushContent {
    /// A desktop is back; nobody sees this.
    DesktopOnline(DesktopOnline),
    /// Something that the agent wants its user to see.
    Alert(Alert),
}

/// PUSH-2: a desktop has registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DesktopOnline {
    /// The desktop.
    pub desktop: DeviceId,
    /// The relay that it registered at.
    pub instance: RelayInstanceId,
    /// The generation of its connection.
    pub generation: ConnectionGeneration,
}

/// PUSH-3: a visible message about a session.
#[derive(Clone, PartialEq, Eq)]
pub struct Alert {
    /// The session.
    pub session: String,
    /// At most [`PUSH_TITLE_CHARACTERS`].
    pub title: String,
    /// At most [`PUSH_BODY_CHARACTERS`].
    pub body: String,
}

/// What a user works on is nobody else's business, so no log shows it.
impl std::fmt::Debug for Alert {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alert").finish_non_exhaustive()
    }
}

impl Alert {
    /// An alert with texts of any length.
    pub fn new(session: String, title: &str, body: &str) -> Self {
        Self {
            session,
            title: cut(title, PUSH_TITLE_CHARACTERS),
            body: cut(body, PUSH_BODY_CHARACTERS),
        }
    }

    /// The alert with a body so short that `size_of` makes at most `limit` of it; an alert whose other
    /// texts are too long already has an empty body then.
    pub(super) fn fitted(&self, limit: usize, size_of: impl Fn(&Self) -> usize) -> Self {
        let mut fitted = self.clone();
        let mut characters = self.body.chars().count();
        loop {
            let excess = size_of(&fitted).saturating_sub(limit);
            if excess == 0 || characters == 0 {
                return fitted;
            }
            // A character makes six bytes at most, when JSON has to escape it.
            characters -= (excess / 6).clamp(1, characters);
            fitted.body = cut(&self.body, characters);
        }
    }
}

/// The text, or as much of it as leaves room for the `…` that tells that more was there.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let kept = text.chars().take(most.saturating_sub(1));
            kept.chain((most > 0).then_some('…')).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PUSH-3: up to the limit a text stays; a longer one is cut at a character and says so.
    #[test]
    fn long_texts_are_cut_at_a_character() {
        let exact = "é".repeat(PUSH_BODY_CHARACTERS);
        let title = "t".repeat(PUSH_TITLE_CHARACTERS);
        let alert = Alert::new("s".to_owned(), &title, &exact);
        assert_eq!(
            (alert.title.as_str(), alert.body.as_str()),
            (&*title, &*exact)
        );

        let alert = Alert::new("s".to_owned(), &format!("{title}x"), &format!("{exact}x"));
        assert_eq!(alert.body.chars().count(), PUSH_BODY_CHARACTERS);
        assert_eq!(alert.title.chars().count(), PUSH_TITLE_CHARACTERS);
        assert!(alert.body.ends_with("é…") && alert.title.ends_with("t…"));
        for (most, left) in [(0, ""), (1, "…"), (2, "a…"), (3, "abc"), (4, "abc")] {
            assert_eq!(cut("abc", most), left);
        }
    }

    /// PUSH-3: services take so many bytes; a body that makes more is cut further.
    #[test]
    fn bodies_fit_into_what_a_service_takes() {
        let size = |alert: &Alert| serde_json::to_string(&alert.body).unwrap().len();
        for text in ["a", "é", "😀", "\u{1}", "\""] {
            let alert = Alert::new("s".to_owned(), "t", &text.repeat(PUSH_BODY_CHARACTERS));
            for limit in [10, 100, 999, 7_000] {
                let fitted = alert.fitted(limit, size);
                assert!(size(&fitted) <= limit, "{text:?} in {limit}");
                assert!(
                    fitted == alert || size(&fitted) + 13 > limit,
                    "{text:?} in {limit}"
                );
            }
            assert_eq!(alert.fitted(1, size).body, "");
        }
    }
}
