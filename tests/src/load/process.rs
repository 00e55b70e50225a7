//! What the kernel says about the server under load and about the machine: `/proc`, so that the
//! server need not know that it is measured.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::error::LoadError;

/// `/proc` counts CPU time in ticks of 10 ms: USER_HZ is 100 on every architecture that Linux's
/// Rust targets have, whatever the kernel's own tick.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running process, known by its id.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    id: u32,
}

impl Process {
    /// The process with this id. Nothing is read yet.
    pub fn new(id: u32) -> Self {
        Self { id }
    }

    /// This program itself.
    pub fn current() -> Self {
        Self::new(std::process::id())
    }

    /// CPU time of all its threads so far, user and system, to 10 ms.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn cpu(self) -> Result<Duration, LoadError> {
        let path = self.path("stat");
        let stat = read(&path)?;
        cpu_seconds(&stat)
            .map(Duration::from_secs_f64)
            .ok_or_else(|| not_understood(path))
    }

    /// Memory in RAM, in bytes (VmRSS).
    ///
    /// # Errors
    /// When the process has ended.
    pub fn resident(self) -> Result<u64, LoadError> {
        self.status("VmRSS:")
    }

    /// The most memory in RAM, in bytes, since the start or the last
    /// [`reset_peak`](Self::reset_peak) (VmHWM).
    ///
    /// # Errors
    /// When the process has ended.
    pub fn peak(self) -> Result<u64, LoadError> {
        self.status("VmHWM:")
    }

    /// Lets the peak start again from what is resident at this moment.
    ///
    /// # Errors
    /// When the process has ended or belongs to another user.
    pub fn reset_peak(self) -> Result<(), LoadError> {
        let path = self.path("clear_refs");
        fs::write(&path, "5").map_err(|error| unreadable(path, error.to_string()))
    }

    fn status(self, key: &str) -> Result<u64, LoadError> {
        let path = self.path("status");
        let status = read(&path)?;
        status_bytes(&status, key).ok_or_else(|| not_understood(path))
    }

    fn path(self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.id))
    }
}

/// What all CPUs of the machine together did so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineTime {
    /// Seconds in which a CPU did something.
    pub busy: f64,
}

impl MachineTime {
    /// Reads it from `/proc/stat`.
    ///
    /// # Errors
    /// When the file is not as Linux writes it.
    pub fn read() -> Result<Self, LoadError> {
        let path = PathBuf::from("/proc/stat");
        let stat = read(&path)?;
        machine_time(&stat).ok_or_else(|| not_understood(path))
    }
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name in parentheses may hold spaces; the fields are counted from behind it.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let user: f64 = parse(fields.nth(11))?;
    let system: f64 = parse(fields.next())?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn status_bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = parse(line.split_ascii_whitespace().next())?;
    Some(kibibytes * 1024)
}

fn machine_time(stat: &str) -> Option<MachineTime> {
    let mut ticks = Vec::new();
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user already.
    for field in stat
        .lines()
        .next()?
        .split_ascii_whitespace()
        .skip(1)
        .take(8)
    {
        ticks.push(parse::<f64>(Some(field))?);
    }
    let idle = ticks.get(3)? + ticks.get(4)?;
    let all: f64 = ticks.iter().sum();
    Some(MachineTime {
        busy: (all - idle) / TICKS_PER_SECOND,
    })
}

fn parse<T: FromStr>(field: Option<&str>) -> Option<T> {
    field?.parse().ok()
}

fn read(path: &PathBuf) -> Result<String, LoadError> {
    fs::read_to_string(path).map_err(|error| unreadable(path.clone(), error.to_string()))
}

fn not_understood(path: PathBuf) -> LoadError {
    unreadable(path, "it is not as Linux writes it".to_owned())
}

fn unreadable(path: PathBuf, problem: String) -> LoadError {
    LoadError::Unreadable { path, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = "7 (a (odd) name) S 1 7 7 0 -1 4 10 0 0 0 250 50 0 0 20 0 3 0 9 8 7";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 (short) S 1"), None);
    }

    #[test]
    fn memory_is_read_by_its_key() {
        let status = "VmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(1024 * 1024));
        assert_eq!(status_bytes(status, "VmSwap:"), None);
    }

    #[test]
    fn waiting_for_the_disk_is_not_work() {
        let stat = "cpu  100 0 200 5000 300 10 20 70 55 0\ncpu0 1 2\n";
        assert_eq!(machine_time(stat), Some(MachineTime { busy: 4.0 }));
    }

    #[test]
    fn this_process_has_figures() {
        let own = Process::current();
        own.cpu().unwrap();
        own.reset_peak().unwrap();
        let resident = own.resident().unwrap();
        assert!(resident > 0 && own.peak().unwrap() > 0);
        assert!(MachineTime::read().unwrap().busy > 0.0);
    }
}
