//! What the store in memory holds and how each call changes it: the rules of the store once more,
//! in plain Rust.

mod history;
mod keys;
mod push_tokens;

use std::collections::BTreeMap;
use std::time::Duration;

use relay_model::ids::{AccountId, ApiKeyId, ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::limits::{DEFAULT_PROTOCOL_FLOOR, INSTANCE_RETENTION};
use relay_model::push::{NewPushToken, PushTokenRow};
use relay_model::store::{
    Asker, ChangedDevice, DesktopRegistration, DeviceChange, DeviceFilter, DeviceRow,
    DeviceStanding, DeviceStatus, DeviceType, Elsewhere, ForgottenDevice, HeartbeatWrite, Holder,
    KnownDevice, OfflineReason, PhoneRegistration, PresenceEntry, PresenceWrite, RegistrationFacts,
    RegistrationOutcome, StoredApiKey, TargetFacts,
};
use relay_model::time::Timestamp;

use history::History;
pub use history::PresenceChange;

/// Every table, in an order that does not depend on the run.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) devices: BTreeMap<DeviceId, Device>,
    instances: BTreeMap<RelayInstanceId, Instance>,
    pub(super) history: History,
    api_keys: BTreeMap<ApiKeyId, StoredApiKey>,
    push_tokens: BTreeMap<DeviceId, PushTokenRow>,
    pub(super) protocol_floor: u32,
}

/// A device; `row.elsewhere` is filled in per asker only.
#[derive(Debug, Clone)]
pub(super) struct Device {
    account: AccountId,
    pub(super) row: DeviceRow,
    pub(super) forgotten: bool,
    holder: Option<(RelayInstanceId, ConnectionGeneration)>,
    status_at: Timestamp,
}

#[derive(Debug, Clone, Copy)]
struct Instance {
    draining: bool,
    renewed_at: Timestamp,
    lease_until: Timestamp,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            devices: BTreeMap::new(),
            instances: BTreeMap::new(),
            history: History::default(),
            api_keys: BTreeMap::new(),
            push_tokens: BTreeMap::new(),
            protocol_floor: DEFAULT_PROTOCOL_FLOOR,
        }
    }
}

impl Instance {
    fn is_live(self, now: Timestamp) -> bool {
        Holder::of(self.draining, self.lease_until, now) == Holder::Live
    }
}

impl Device {
    fn last_known(&self, instances: &BTreeMap<RelayInstanceId, Instance>) -> Timestamp {
        let renewed_at = self
            .holder
            .and_then(|(holder, _)| instances.get(&holder))
            .map(|instance| instance.renewed_at);
        [Some(self.status_at), self.row.last_seen, renewed_at]
            .into_iter()
            .flatten()
            .max()
            .unwrap_or(self.status_at)
    }

    fn is_held_live(
        &self,
        instances: &BTreeMap<RelayInstanceId, Instance>,
        now: Timestamp,
    ) -> bool {
        self.holder
            .and_then(|(holder, _)| instances.get(&holder))
            .is_some_and(|instance| instance.is_live(now))
    }

    fn elsewhere(
        &self,
        instances: &BTreeMap<RelayInstanceId, Instance>,
        asker: Asker,
    ) -> Option<Elsewhere> {
        let (instance, _) = self.holder?;
        if instance == asker.instance {
            return None;
        }
        let holder = instances.get(&instance).map_or(Holder::Gone, |instance| {
            Holder::of(instance.draining, instance.lease_until, asker.now)
        });
        let seen = match (self.row.status, self.row.offline_reason) {
            (
                DeviceStatus::Offline,
                Some(OfflineReason::RelayStopped | OfflineReason::RelayLost),
            ) => self.row.last_seen?,
            (DeviceStatus::Offline, _) => return None,
            _ if holder == Holder::Live => asker.now,
            _ => self.last_known(instances),
        };
        Some(Elsewhere { seen, holder })
    }

    /// The row's time if it is changed at `now`: later than that of the change before.
    fn changed_at(&self, now: Timestamp) -> Timestamp {
        now.max(self.row.updated_at.plus(Duration::from_micros(1)))
    }

    fn seen(&mut self, at: Timestamp) {
        self.row.last_seen = self.row.last_seen.max(Some(at));
    }

    /// Changes the presence of a device that some relay holds, and keeps that in the history.
    fn change(
        &mut self,
        status: DeviceStatus,
        reason: Option<OfflineReason>,
        at: Timestamp,
        history: &mut History,
    ) {
        self.row.status = status;
        self.row.offline_reason = reason;
        self.status_at = at;
        if let Some((instance, generation)) = self.holder {
            history.keep(PresenceChange {
                account: self.account,
                device: self.row.id,
                at,
                instance,
                generation,
                status: status.as_str(),
                reason: reason.map(OfflineReason::as_str),
            });
        }
    }

    fn takes_online(&self, write: &PresenceWrite) -> bool {
        let Some((holder, _)) = self.holder else {
            return true;
        };
        match self.row.offline_reason {
            Some(OfflineReason::RelayLost) => true,
            Some(OfflineReason::RelayStopped) if holder != write.instance => true,
            _ => self.status_at <= write.at,
        }
    }

    fn takes_other(&self, write: &PresenceWrite) -> bool {
        let is_holders = self.holder == Some((write.instance, write.generation));
        is_holders
            && match self.row.offline_reason {
                Some(OfflineReason::RelayLost) => true,
                Some(OfflineReason::RelayStopped | OfflineReason::Unlinked) => false,
                _ => self.status_at <= write.at,
            }
    }
}

/// What either kind of device says about itself.
pub(super) struct Registration {
    device_type: DeviceType,
    device_name: String,
    platform: String,
    platform_version: Option<String>,
    app_version: String,
    capabilities: Option<serde_json::Value>,
    relay_eligible: Option<bool>,
    push_token: Option<NewPushToken>,
    rejoin: bool,
}

impl From<DesktopRegistration> for Registration {
    fn from(desktop: DesktopRegistration) -> Self {
        Self {
            device_type: DeviceType::Desktop,
            device_name: desktop.device_name,
            platform: desktop.platform,
            platform_version: desktop.platform_version,
            app_version: desktop.app_version,
            capabilities: desktop.capabilities,
            relay_eligible: desktop.relay_eligible,
            push_token: None,
            rejoin: desktop.rejoin,
        }
    }
}

impl From<PhoneRegistration> for Registration {
    fn from(phone: PhoneRegistration) -> Self {
        Self {
            device_type: DeviceType::Mobile,
            device_name: phone.device_name,
            platform: phone.platform,
            platform_version: None,
            app_version: phone.app_version,
            capabilities: phone.capabilities,
            relay_eligible: None,
            push_token: phone.push_token,
            rejoin: phone.rejoin,
        }
    }
}

/// The device, if it is this account's.
fn owned(
    devices: &mut BTreeMap<DeviceId, Device>,
    account: AccountId,
    device: DeviceId,
) -> Option<&mut Device> {
    devices
        .get_mut(&device)
        .filter(|device| device.account == account)
}

/// The variant of a word that this store wrote itself.
fn variant<T: Copy>(all: &[T], word_of: impl Fn(T) -> &'static str, word: &str) -> T {
    let found = all.iter().find(|variant| word_of(**variant) == word);
    *found.expect("a word of the enum")
}

impl Tables {
    pub(super) fn registration_facts(
        &self,
        asker: Asker,
        account: AccountId,
        device: DeviceId,
        target: Option<DeviceId>,
    ) -> RegistrationFacts {
        let target = target
            .and_then(|target| self.devices.get(&target))
            .filter(|target| target.account == account)
            .filter(|target| target.row.device_type == DeviceType::Desktop);
        RegistrationFacts {
            protocol_floor: self.protocol_floor,
            device: match self.devices.get(&device) {
                None => DeviceStanding::Unknown,
                Some(device) if device.account != account => DeviceStanding::Foreign,
                Some(device) => DeviceStanding::Owned {
                    device_type: device.row.device_type,
                    forgotten: device.forgotten,
                    relay_eligible: device.row.device_type == DeviceType::Mobile
                        || device.row.relay_eligible,
                },
            },
            target: target.map(|target| TargetFacts {
                admitted: !target.forgotten && target.row.relay_eligible,
                elsewhere: target.elsewhere(&self.instances, asker),
            }),
        }
    }

    pub(super) fn register(
        &mut self,
        account: AccountId,
        id: DeviceId,
        said: Registration,
        now: Timestamp,
    ) -> RegistrationOutcome {
        let before = self.devices.get(&id);
        let mut was_eligible = before.map(|device| device.row.relay_eligible);
        let changed_at = before.map_or(now, |device| device.changed_at(now));
        let device = self.devices.entry(id).or_insert_with(|| Device {
            account,
            row: DeviceRow {
                id,
                device_type: said.device_type,
                device_name: String::new(),
                platform: String::new(),
                platform_version: None,
                app_version: String::new(),
                capabilities: serde_json::json!({}),
                relay_eligible: true,
                status: DeviceStatus::Offline,
                offline_reason: None,
                elsewhere: None,
                last_seen: None,
                last_heartbeat: None,
                active_project_directory: None,
                created_at: now,
                updated_at: now,
            },
            forgotten: false,
            holder: None,
            status_at: now,
        });
        if device.account != account {
            return RegistrationOutcome::Foreign;
        }
        if device.row.device_type != said.device_type {
            return RegistrationOutcome::TypeMismatch;
        }
        if device.forgotten && !said.rejoin {
            return RegistrationOutcome::Forgotten;
        }
        let was_forgotten = std::mem::take(&mut device.forgotten);
        let row = &mut device.row;
        row.device_name = said.device_name;
        row.platform = said.platform;
        row.platform_version = said.platform_version;
        row.app_version = said.app_version;
        if let Some(capabilities) = said.capabilities {
            row.capabilities = capabilities;
        }
        if let Some(eligible) = said.relay_eligible {
            row.relay_eligible = eligible;
        }
        row.updated_at = changed_at;
        let changed = ChangedDevice {
            row: row.clone(),
            was_eligible: *was_eligible.get_or_insert(row.relay_eligible),
            was_forgotten,
        };
        if let Some(token) = said.push_token {
            self.keep_push_token(account, id, token, now);
        }
        RegistrationOutcome::Registered(Box::new(changed))
    }

    pub(super) fn change_device(
        &mut self,
        account: AccountId,
        device: DeviceId,
        change: DeviceChange,
        now: Timestamp,
    ) -> Option<ChangedDevice> {
        let device = owned(&mut self.devices, account, device)?;
        if device.forgotten {
            return None;
        }
        let changed_at = device.changed_at(now);
        let row = &mut device.row;
        let was_eligible = row.relay_eligible;
        if let Some(name) = change.device_name {
            row.device_name = name;
        }
        if let Some(eligible) = change.relay_eligible {
            row.relay_eligible = eligible;
        }
        if let Some(directory) = change.project_directory {
            row.active_project_directory = Some(directory);
        }
        row.updated_at = changed_at;
        Some(ChangedDevice {
            row: row.clone(),
            was_eligible,
            was_forgotten: false,
        })
    }

    pub(super) fn forget_device(
        &mut self,
        account: AccountId,
        device: DeviceId,
        now: Timestamp,
    ) -> Option<ForgottenDevice> {
        let Self {
            devices,
            history,
            push_tokens,
            ..
        } = self;
        let device = owned(devices, account, device)?;
        let was_forgotten = std::mem::replace(&mut device.forgotten, true);
        if !was_forgotten {
            device.row.updated_at = device.changed_at(now);
            let status_at = device.status_at.max(now);
            if device.row.status == DeviceStatus::Online {
                device.seen(now);
            }
            let reason = Some(OfflineReason::Unlinked);
            if device.row.status == DeviceStatus::Offline {
                device.row.offline_reason = reason;
            } else {
                device.change(DeviceStatus::Offline, reason, now, history);
            }
            device.status_at = status_at;
            push_tokens.remove(&device.row.id);
        }
        Some(ForgottenDevice {
            device_type: device.row.device_type,
            was_forgotten,
            updated_at: device.row.updated_at,
        })
    }

    pub(super) fn list(
        &self,
        asker: Asker,
        account: AccountId,
        filter: DeviceFilter,
    ) -> Vec<DeviceRow> {
        let mut rows: Vec<DeviceRow> = self
            .devices
            .values()
            .filter(|device| device.account == account && !device.forgotten)
            .filter(|device| {
                filter
                    .device_type
                    .is_none_or(|wanted| wanted == device.row.device_type)
            })
            .map(|device| DeviceRow {
                elsewhere: device.elsewhere(&self.instances, asker),
                ..device.row.clone()
            })
            .collect();
        rows.sort_by_key(|row| (row.created_at, row.id));
        rows
    }

    pub(super) fn write_presence(&mut self, writes: &[PresenceWrite]) {
        for write in writes {
            let Self {
                devices, history, ..
            } = self;
            let Some(device) = owned(devices, write.account, write.device) else {
                continue;
            };
            if write.status == DeviceStatus::Online {
                if device.takes_online(write) {
                    device.holder = Some((write.instance, write.generation));
                    device.change(DeviceStatus::Online, None, write.at, history);
                    device.seen(write.at);
                }
            } else if device.takes_other(write) {
                if device.row.status == DeviceStatus::Online {
                    device.seen(write.at);
                }
                let reason = match write.status {
                    DeviceStatus::Offline => write.reason,
                    _ => None,
                };
                device.change(write.status, reason, write.at, history);
            }
        }
    }

    pub(super) fn write_heartbeats(&mut self, writes: &[HeartbeatWrite]) {
        for write in writes {
            if let Some(device) = owned(&mut self.devices, write.account, write.device) {
                device.row.last_heartbeat = device.row.last_heartbeat.max(Some(write.at));
                device.seen(write.at);
            }
        }
    }

    pub(super) fn renew_instance(
        &mut self,
        id: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) {
        let instance = self.instances.entry(id).or_insert(Instance {
            draining: false,
            renewed_at: now,
            lease_until,
        });
        instance.renewed_at = now;
        instance.lease_until = lease_until;
    }

    pub(super) fn mark_draining(
        &mut self,
        id: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) {
        let instance = self.instances.entry(id).or_insert(Instance {
            draining: true,
            renewed_at: now,
            lease_until,
        });
        instance.draining = true;
    }

    pub(super) fn sweep_lost(&mut self, now: Timestamp) -> usize {
        let mut marked = 0;
        for device in self.devices.values_mut() {
            if device.row.status == DeviceStatus::Offline
                || device.is_held_live(&self.instances, now)
            {
                continue;
            }
            device.row.last_seen = Some(device.last_known(&self.instances));
            let holder = device
                .holder
                .and_then(|(holder, _)| self.instances.get(&holder));
            let reason = if holder.is_some_and(|holder| holder.draining) {
                OfflineReason::RelayStopped
            } else {
                OfflineReason::RelayLost
            };
            device.change(DeviceStatus::Offline, Some(reason), now, &mut self.history);
            marked += 1;
        }
        let forget_before = now.minus(INSTANCE_RETENTION);
        self.instances
            .retain(|_, instance| instance.lease_until >= forget_before);
        marked
    }

    pub(super) fn marked_lost(&self, id: RelayInstanceId) -> Vec<(AccountId, DeviceId)> {
        let lost = self.devices.values().filter(|device| {
            let held = device.holder.is_some_and(|(holder, _)| holder == id);
            held && device.row.offline_reason == Some(OfflineReason::RelayLost)
        });
        lost.map(|device| (device.account, device.row.id)).collect()
    }

    pub(super) fn release_instance(&mut self, id: RelayInstanceId, now: Timestamp) {
        for device in self.devices.values_mut() {
            let held = device.holder.is_some_and(|(holder, _)| holder == id);
            if held && device.row.status != DeviceStatus::Offline {
                device.change(
                    DeviceStatus::Offline,
                    Some(OfflineReason::RelayStopped),
                    now,
                    &mut self.history,
                );
                device.row.last_seen = Some(now);
            }
        }
        let instance = self.instances.entry(id).or_insert(Instance {
            draining: true,
            renewed_at: now,
            lease_until: now,
        });
        instance.draining = true;
        instance.lease_until = now;
    }

    pub(super) fn list_known(&self, asker: Asker, account: AccountId) -> Vec<KnownDevice> {
        let of_account = |device: &&Device| device.account == account;
        let known = self
            .devices
            .values()
            .filter(of_account)
            .map(|device| KnownDevice {
                row: DeviceRow {
                    elsewhere: device.elsewhere(&self.instances, asker),
                    ..device.row.clone()
                },
                forgotten: device.forgotten,
                status_at: device.status_at,
            });
        let mut known: Vec<KnownDevice> = known.collect();
        known.sort_by_key(|device| (device.row.created_at, device.row.id));
        known
    }

    pub(super) fn last_changes(
        &self,
        account: AccountId,
        devices: &[DeviceId],
        limit: usize,
    ) -> Vec<PresenceEntry> {
        let last = devices.iter().flat_map(|device| {
            let of_device =
                |change: &&PresenceChange| change.account == account && change.device == *device;
            self.history.changes().rev().filter(of_device).take(limit)
        });
        last.map(|change| PresenceEntry {
            device: change.device,
            at: change.at,
            instance: change.instance,
            generation: change.generation,
            status: variant(DeviceStatus::ALL, DeviceStatus::as_str, change.status),
            reason: change
                .reason
                .map(|word| variant(OfflineReason::ALL, OfflineReason::as_str, word)),
        })
        .collect()
    }

    pub(super) fn purge_presence_history(&mut self, before: Timestamp) -> usize {
        self.history.purge(before)
    }
}
