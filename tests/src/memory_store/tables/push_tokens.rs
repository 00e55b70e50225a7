//! The push tokens of the store in memory (section 12).

use relay_model::ids::{AccountId, DeviceId};
use relay_model::push::{
    NewPushToken, PushOutcomeWrite, PushPlatform, PushRegistration, PushTokenRow, PushTokenSetting,
};
use relay_model::store::DeviceType;
use relay_model::time::Timestamp;

use super::Tables;

impl Tables {
    pub(in crate::memory_store) fn set_push_token(
        &mut self,
        account: AccountId,
        id: DeviceId,
        token: NewPushToken,
        now: Timestamp,
    ) -> PushTokenSetting {
        match self.devices.get(&id) {
            None => PushTokenSetting::Unknown,
            Some(device) if device.account != account => PushTokenSetting::Foreign,
            Some(device) if device.row.device_type == DeviceType::Desktop => {
                PushTokenSetting::NotAPhone
            }
            Some(device) if device.forgotten => PushTokenSetting::Forgotten,
            Some(_) => {
                self.keep_push_token(account, id, token, now);
                PushTokenSetting::Set
            }
        }
    }

    /// Gives a phone of the account its token; whoever held it has none then.
    pub(super) fn keep_push_token(
        &mut self,
        account: AccountId,
        device: DeviceId,
        new: NewPushToken,
        now: Timestamp,
    ) {
        let before = self.push_tokens.remove(&device);
        let same = before.filter(|row| row.token == new.token && row.platform == new.platform);
        self.push_tokens.retain(|_, row| row.token != new.token);
        let row = PushTokenRow {
            device,
            account,
            platform: new.platform,
            environment: new
                .environment
                .or(same.as_ref().and_then(|row| row.environment))
                .filter(|_| new.platform == PushPlatform::Ios),
            token: new.token,
            registered_at: now,
            last_outcome: same.and_then(|row| row.last_outcome),
        };
        self.push_tokens.insert(device, row);
    }

    pub(in crate::memory_store) fn remove_push_tokens(
        &mut self,
        account: AccountId,
        device: Option<DeviceId>,
    ) -> usize {
        let all = self.push_tokens.len();
        self.push_tokens
            .retain(|id, row| row.account != account || device.is_some_and(|wanted| wanted != *id));
        all - self.push_tokens.len()
    }

    pub(in crate::memory_store) fn list_push_tokens(
        &self,
        account: AccountId,
    ) -> Vec<PushTokenRow> {
        let rows = self.push_tokens.values().filter(|row| {
            let device = self.devices.get(&row.device);
            row.account == account && device.is_some_and(|device| !device.forgotten)
        });
        rows.cloned().collect()
    }

    pub(in crate::memory_store) fn remove_push_registration(
        &mut self,
        registration: PushRegistration,
    ) -> bool {
        let row = self.push_tokens.get(&registration.device);
        let same = row.is_some_and(|row| row.registration() == registration);
        same && self.push_tokens.remove(&registration.device).is_some()
    }

    pub(in crate::memory_store) fn record_push_outcomes(&mut self, writes: &[PushOutcomeWrite]) {
        for write in writes {
            let Some(row) = self.push_tokens.get_mut(&write.registration.device) else {
                continue;
            };
            let older = row.last_outcome.is_some_and(|(_, at)| at > write.at);
            if row.token.hash() == write.registration.token_hash && !older {
                row.last_outcome = Some((write.outcome, write.at));
            }
        }
    }
}
