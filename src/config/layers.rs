//! The layers: defaults, the file, the environment. Every key is read as text by the table in `keys`; whether values
//! make sense is `check`.

use std::path::Path;

use figment::Provider;
use figment::providers::{Format, Toml};
use figment::value::Value;

use super::{Config, ConfigError, keys};

/// The file that is read from the working directory when no other one is named.
const FILE: &str = "lifemate.toml";
/// What the environment's keys start with.
const PREFIX: &str = "LIFEMATE_";

impl Config {
    /// Reads the layers and checks them.
    ///
    /// # Errors
    /// When the named file cannot be read, a key is unknown, a value cannot be used or two contradict each other.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let path = file.unwrap_or(Path::new(FILE));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && file.is_none() => String::new(),
            Err(e) => {
                return Err(ConfigError::new(
                    path.display().to_string(),
                    format!("cannot be read: {e}"),
                ));
            }
        };
        Self::from_layers(
            &text,
            std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
        )
    }

    /// The defaults, then the text of a file, then environment variables (others than `LIFEMATE_*` are not looked at).
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_layers(
        file: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for (name, value) in read_toml(file)? {
            config.set(&name, &name, &value)?;
        }
        for (variable, value) in environment {
            let Some(name) = variable.strip_prefix(PREFIX) else {
                continue;
            };
            config.set(&variable, &name.to_ascii_lowercase(), &value)?;
        }
        config.check()?;
        Ok(config)
    }

    /// Sets one key; an empty value means "not set here". `source` is what an error calls the key.
    fn set(&mut self, source: &str, name: &str, value: &str) -> Result<(), ConfigError> {
        let Some(key) = keys::KEYS.iter().find(|key| key.name == name) else {
            return Err(ConfigError::new(
                source,
                format!("is not a known key{}", keys::suggestion(name)),
            ));
        };
        if value.is_empty() {
            return Ok(());
        }
        (key.read)(self, value).map_err(|problem| ConfigError::new(source, problem))
    }
}

/// The file's keys with their values as text; lists become comma lists.
pub(super) fn read_toml(text: &str) -> Result<Vec<(String, String)>, ConfigError> {
    // The parser's own message would quote the line, and with it perhaps a secret.
    let layers = Toml::string(text).data().map_err(|e| {
        ConfigError::new(
            FILE,
            format!("is not valid TOML{}", toml_position(&e.to_string())),
        )
    })?;
    let mut values = Vec::new();
    for (name, value) in layers.into_values().flatten() {
        let text = scalar(&value).ok_or_else(|| {
            ConfigError::new(
                &name,
                "must be text, a number, true, false or a list of texts",
            )
        })?;
        values.push((name, text));
    }
    Ok(values)
}

/// ` (line 3, column 5)` out of a parser's message, or nothing.
fn toml_position(message: &str) -> String {
    let Some((_, rest)) = message.split_once("at line ") else {
        return String::new();
    };
    let line: String = rest.chars().take_while(char::is_ascii_digit).collect();
    format!(" (line {line})")
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(_, text) => Some(text.clone()),
        Value::Bool(_, flag) => Some(flag.to_string()),
        Value::Num(_, number) => number.to_i128().map(|n| n.to_string()),
        Value::Array(_, items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .map(|i| i.join(",")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Profile};

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
        let file = "pay_window_secs = 60\ndeployment = \"from-file\"\nallowed_origins = [\"https://a.example\", \"https://b.example\"]\n";
        let config = Config::from_layers(
            file,
            environment(&[("LIFEMATE_PAY_WINDOW_SECS", "30"), ("HOME", "/root")]),
        )
        .unwrap();
        assert_eq!(
            (config.pay_window_secs, config.deployment.as_str()),
            (30, "from-file")
        );
        assert_eq!(
            config.allowed_origins,
            ["https://a.example", "https://b.example"]
        );
        assert_eq!(config.orphan_wait_secs, 600);
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        let config = Config::from_layers(
            "",
            environment(&[("LIFEMATE_REDIS_URL", "redis://127.0.0.1:6379")]),
        )
        .unwrap();
        let again = Config::from_layers(&config.to_toml(), []).unwrap();
        assert_eq!(again.to_toml(), config.to_toml());
    }

    #[test]
    fn a_broken_file_is_refused_without_quoting_it() {
        let error = Config::from_layers("id_secret = \"hidden-value\nnext", [])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("lifemate.toml") && !error.contains("hidden-value"),
            "{error}"
        );
    }

    #[test]
    fn an_empty_variable_is_no_value() {
        let config = Config::from_layers(
            "profile = \"development\"",
            environment(&[("LIFEMATE_KAFKA_BROKERS", "")]),
        )
        .unwrap();
        assert_eq!(
            (config.kafka_brokers.is_none(), config.profile),
            (true, Profile::Development)
        );
    }
}
