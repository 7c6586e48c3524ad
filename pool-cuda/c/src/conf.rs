//! What the environment says of the pools: `POOL_CONF=key:value,...`, read when the library is first used.

use std::env;

use bytesize::ByteSize;
use pool_core::PoolConfig;
use pool_core::policy::{Pages, Preallocation, Reclaim};

use crate::code::{Code, Result};
use crate::last;

/// The variable's name.
const VARIABLE: &str = "POOL_CONF";

/// A key, what it takes, and what it does, for the message that lists them.
const KEYS: [(&str, &str, &str); 8] = [
    ("limit", "SIZE", "the most bytes that are taken from a device"),
    ("initial", "SIZE", "bytes that are taken from a device at its first use"),
    ("all_but", "SIZE", "at its first use all that is free on a device is taken, but for so much"),
    ("step", "SIZE", "the least by which a pool grows"),
    ("cache", "SIZE", "bytes that a thread keeps for itself"),
    ("watermark", "SIZE", "above it, memory that nothing uses goes back by itself"),
    ("pages", "0 or 1", "whether memory comes and goes in pages, where a device has them (1)"),
    ("free_sync", "0 or 1", "whether poolFree waits for the device, as cudaFree does (0)"),
];

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Conf {
    pub(crate) free_sync: bool,
    limit_bytes: Option<u64>,
    preallocation: Option<Preallocation>,
    step_bytes: Option<u64>,
    cache_bytes: Option<u64>,
    watermark_bytes: Option<u64>,
    without_pages: bool,
    /// Not the environment's to say: it belongs to what the library stands for.
    align_bytes: Option<u64>,
}

/// A part that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ConfError {
    #[error("{VARIABLE}: there is no key \"{0}\". The keys are:{keys}", keys = known())]
    Key(String),
    #[error("{VARIABLE}: \"{key}\" takes {takes}, and not \"{value}\"")]
    Value { key: &'static str, takes: &'static str, value: String },
    #[error("{VARIABLE}: \"{0}\" is no key:value. The keys are:{keys}", keys = known())]
    Pair(String),
    #[error("{VARIABLE} is no text")]
    Text,
}

fn known() -> String {
    let lines = KEYS.map(|(key, takes, does)| format!("\n  {key}:{takes}  {does}"));
    lines.concat()
}

impl Conf {
    /// As the environment has it.
    pub(crate) fn of_environment() -> Result<Self> {
        let parsed = match env::var(VARIABLE) {
            Ok(text) => Self::parse(&text),
            Err(env::VarError::NotPresent) => Ok(Self::default()),
            Err(env::VarError::NotUnicode(_)) => Err(ConfError::Text),
        };
        parsed.map_err(|error| {
            last::note(&error);
            Code::INVALID_VALUE
        })
    }

    fn parse(text: &str) -> core::result::Result<Self, ConfError> {
        let mut conf = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once(':').ok_or_else(|| ConfError::Pair(part.to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            let &(key, takes, _) = KEYS
                .iter()
                .find(|(known, ..)| *known == key)
                .ok_or_else(|| ConfError::Key(key.to_owned()))?;
            let refused = || ConfError::Value { key, takes, value: value.to_owned() };
            let size = || value.parse().map(|ByteSize(bytes)| bytes).map_err(|_| refused());
            let switch = || match value {
                "0" => Ok(false),
                "1" => Ok(true),
                _ => Err(refused()),
            };
            match key {
                "limit" => conf.limit_bytes = Some(size()?),
                "initial" => conf.preallocation = Some(Preallocation::Bytes(size()?)),
                "all_but" => {
                    conf.preallocation = Some(Preallocation::AllBut { margin_bytes: size()? });
                }
                "step" => conf.step_bytes = Some(size()?),
                "cache" => conf.cache_bytes = Some(size()?),
                "watermark" => conf.watermark_bytes = Some(size()?),
                "pages" => conf.without_pages = !switch()?,
                _ => conf.free_sync = switch()?,
            }
        }
        Ok(conf)
    }

    /// The same, with blocks that begin at multiples of so many bytes, and are as long.
    pub(crate) fn aligned(self, bytes: u64) -> Self {
        Self { align_bytes: Some(bytes), ..self }
    }

    /// How a device's pool is made.
    pub(crate) fn pool(&self) -> PoolConfig {
        let mut config = PoolConfig::new().finds_addresses(true);
        if !self.without_pages {
            config = config.pages(Pages::default());
        }
        if let Some(bytes) = self.align_bytes {
            config = config.granule_bytes(bytes);
        }
        if let Some(bytes) = self.limit_bytes {
            config = config.limit_bytes(bytes);
        }
        if let Some(preallocation) = self.preallocation {
            config = config.preallocation(preallocation);
        }
        if let Some(bytes) = self.step_bytes {
            config = config.arena_bytes(bytes);
        }
        if let Some(bytes) = self.cache_bytes {
            config = config.cache_bytes(bytes);
        }
        if self.watermark_bytes.is_some() {
            let watermark_bytes = self.watermark_bytes;
            config = config.reclaim(Reclaim { watermark_bytes, ..Reclaim::default() });
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_sizes_are_read() {
        let conf = Conf::parse("limit:2GiB, free_sync:1,step:4096 ,pages:0,").unwrap();
        assert_eq!(conf.limit_bytes, Some(2 << 30));
        assert_eq!(conf.step_bytes, Some(4096));
        assert!(conf.free_sync && conf.without_pages);
        assert_eq!(conf.pool().settings().limit_bytes, Some(2 << 30));
        assert!(conf.pool().settings().pages.is_none());
        assert_eq!(Conf::parse("").unwrap(), Conf::default());
        assert!(Conf::default().pool().settings().pages.is_some());
        let conf = Conf::parse("all_but:1MiB,cache:0,watermark:1KiB").unwrap();
        let settings = *conf.pool().settings();
        assert_eq!(settings.preallocation, Preallocation::AllBut { margin_bytes: 1 << 20 });
        assert_eq!((settings.cache_bytes, settings.reclaim.watermark_bytes), (0, Some(1 << 10)));
        let conf = Conf::parse("initial:1MB").unwrap();
        assert_eq!(conf.pool().settings().preallocation, Preallocation::Bytes(1_000_000));
    }

    #[test]
    fn what_is_no_key_or_value_is_said_with_what_would_be() {
        let message = |text| Conf::parse(text).unwrap_err().to_string();
        let unknown = message("limits:1GiB");
        for (key, ..) in KEYS {
            assert!(unknown.contains(&format!("\n  {key}:")), "{unknown}");
        }
        assert!(unknown.contains("\"limits\""), "{unknown}");
        assert!(message("limit").contains("no key:value"));
        assert_eq!(message("limit:much"), "POOL_CONF: \"limit\" takes SIZE, and not \"much\"");
        assert_eq!(
            message("free_sync:yes"),
            "POOL_CONF: \"free_sync\" takes 0 or 1, and not \"yes\""
        );
    }

    /// Each key is one that the parser knows.
    #[test]
    fn every_key_does_something() {
        for (key, takes, _) in KEYS {
            let value = if takes == "SIZE" {
                "3MiB"
            } else if key == "pages" {
                "0"
            } else {
                "1"
            };
            let conf = Conf::parse(&format!("{key}:{value}")).unwrap();
            assert_ne!(conf, Conf::default(), "{key}");
        }
    }
}
