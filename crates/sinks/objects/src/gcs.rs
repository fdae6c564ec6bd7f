//! `gs://BUCKET/PREFIX`: Google Cloud Storage.
//!
//! Credentials are found as Google's libraries find them ("application default credentials"): a file that the SPEC or
//! GOOGLE_APPLICATION_CREDENTIALS names, the one that `gcloud auth application-default login` writes, or the service account of the
//! machine. A file that has changed is read again. STORAGE_EMULATOR_HOST is an emulator, which needs none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_sink::{Kind, Now, OpenError, PROXY, Sink, Target, tls_options};
use bbq_spec::{ConfigError, Query, Secret, SpecOption, Values};
use bbq_storage::Storage;
use object_store::StaticCredentialProvider;
use object_store::gcp::{GcpCredential, GcpCredentialProvider, GoogleCloudStorageBuilder};

use super::connection::{Connection, once};
use super::connector::Connector;
use super::renewed::Renewed;
use super::settings::ObjectSettings;
use super::store::{Bucket, Cloud, Remote, Store};
use super::target::{OBJECT_OPTIONS, bucket_and_prefix, endpoint, open, settings, variable};

static CLOUD: Cloud = Cloud {
    condition: "x-goog-if-generation-match: 0",
    has_suffix_ranges: true,
    no_bucket: "check that the bucket exists; bbq does not create it",
    no_access: "check the credentials (credentials=PATH, GOOGLE_APPLICATION_CREDENTIALS) and what they may do \
                (storage.objects.create, storage.objects.get)",
};

/// `gs://BUCKET/PREFIX`
pub static GCS: Kind = Kind {
    word: "gs",
    argument: "//BUCKET[/PREFIX]",
    summary: "writes objects to Google Cloud Storage, each message exactly once",
    options: &[
        &OBJECT_OPTIONS,
        &[
            SpecOption {
                key: "endpoint",
                values: Values::Text { form: "URL", pattern: "" },
                default: "STORAGE_EMULATOR_HOST, or Google's",
                meaning: "the server, such as `https://HOST:PORT`; a server that STORAGE_EMULATOR_HOST names gets no credentials",
            },
            SpecOption {
                key: "credentials",
                values: Values::Text { form: "PATH", pattern: "" },
                default: "GOOGLE_APPLICATION_CREDENTIALS, gcloud's, or the account of the machine",
                meaning: "a JSON file with the key of a service account, or from `gcloud auth application-default login`; a changed file is read again",
            },
            PROXY,
            tls_options::CA,
        ],
    ],
    is_exclusive: false,
    parse,
};

#[derive(Debug)]
struct GcsTarget {
    settings: ObjectSettings,
    bucket: String,
    /// Empty, or ends with a slash.
    prefix: String,
    endpoint: Option<String>,
    /// It wants no credentials.
    is_emulator: bool,
    credentials: Option<PathBuf>,
    connection: Connection,
}

/// What a file has that says who bbq is.
enum Key {
    /// The file itself.
    ServiceAccount(Secret),
    /// The library reads it.
    User,
}

fn parse(argument: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    let shown = format!("gs:{argument}");
    let wrong = |why: &str| ConfigError::new(format!("{shown:?}: {why}; write gs://BUCKET/PREFIX"));
    let (bucket, prefix) =
        bucket_and_prefix(argument.strip_prefix("//").unwrap_or_default()).map_err(wrong)?;
    let server = query.take("endpoint", endpoint)?;
    let emulator = variable("STORAGE_EMULATOR_HOST").filter(|_| server.is_none());
    let is_emulator = emulator.is_some();
    let emulator = emulator.map(|host| if host.contains("://") { host } else { format!("http://{host}") });
    let emulator = emulator.map(|url| endpoint(&url)).transpose();
    let emulator = emulator.map_err(|problem| wrong(&format!("STORAGE_EMULATOR_HOST: {problem}")))?;
    let given = query.take("credentials", |path| key_in(Path::new(path)).map(|_| PathBuf::from(path)))?;
    let credentials = match given {
        _ if is_emulator => None,
        Some(path) => Some(path),
        None => {
            let found = of_environment(&variable)
                .and_then(|path| path.map(|path| key_in(&path).map(|_| path)).transpose());
            found.map_err(|problem| ConfigError::new(format!("{shown:?}: credentials: {problem}")))?
        }
    };
    let connection = Connection::take(&shown, query)?;
    let bucket = bucket.to_owned();
    let settings = settings(shown.clone(), query)?;
    let endpoint = server.or(emulator);
    Ok(Arc::new(GcsTarget { settings, bucket, prefix, endpoint, is_emulator, credentials, connection }))
}

/// The file of Google's tools: one that is named must be there, gcloud's may be.
fn of_environment(environment: &dyn Fn(&str) -> Option<String>) -> Result<Option<PathBuf>, String> {
    if let Some(path) = environment("GOOGLE_APPLICATION_CREDENTIALS") {
        return Ok(Some(PathBuf::from(path)));
    }
    let in_folder = |folder: PathBuf| {
        Some(folder.join("application_default_credentials.json")).filter(|path| path.exists())
    };
    let at_home = environment("HOME").and_then(|home| in_folder(Path::new(&home).join(".config/gcloud")));
    let Some(folder) = environment("CLOUDSDK_CONFIG").map(PathBuf::from) else { return Ok(at_home) };
    match (in_folder(folder.clone()), at_home) {
        // The library would take it for the account of the machine.
        (None, Some(at_home)) => Err(format!(
            "CLOUDSDK_CONFIG names {}, which has none, and there is {}; name one with credentials=PATH, or unset CLOUDSDK_CONFIG",
            folder.display(),
            at_home.display()
        )),
        (found, _) => Ok(found),
    }
}

/// Reads a file of credentials. No error has anything of its text but its type.
fn key_in(path: &Path) -> Result<Key, String> {
    let shown = path.display();
    let secret = Secret::of_file(path)?;
    let json: serde_json::Value = serde_json::from_str(secret.expose())
        .map_err(|error| format!("{shown} is not JSON (line {}, column {})", error.line(), error.column()))?;
    let lacks = |keys: &[&str]| keys.iter().find(|key| !json[**key].is_string()).map(|key| (*key).to_owned());
    let (key, missing) = match json["type"].as_str() {
        Some("service_account") => {
            (Key::ServiceAccount(secret.clone()), lacks(&["private_key", "private_key_id", "client_email"]))
        }
        Some("authorized_user") => (Key::User, lacks(&["client_id", "client_secret", "refresh_token"])),
        Some(other) => {
            return Err(format!(
                "{shown} has credentials of the type {other:?}, which bbq does not support; use the key of a service account, or give \
                 the machine a service account and leave the file out"
            ));
        }
        None => return Err(format!("{shown} has no \"type\"; use the key file (JSON) of a service account")),
    };
    match missing {
        Some(missing) => Err(format!("{shown} has no {missing:?}; download the file again")),
        None => Ok(key),
    }
}

impl Target for GcsTarget {
    fn memory_bytes_min(&self) -> u64 {
        self.settings.memory_bytes_min()
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let not_yet = |error: &dyn std::fmt::Display| self.settings.not_yet(error);
        let connector = self.connection.connector().map_err(|error| not_yet(&error))?;
        let uploads = connector.uploads();
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_bucket_name(&self.bucket)
            .with_retry(once())
            .with_skip_signature(self.is_emulator)
            .with_http_connector(connector.clone());
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_base_url(endpoint);
        }
        if self.is_emulator {
            // Without any, the library would look for a file.
            let none = GcpCredential { bearer: String::new() };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(none)));
        }
        if let Some(path) = self.credentials.clone() {
            let bucket = self.bucket.clone();
            let read = move || credentials(&path, &bucket, &connector);
            let paths = self.credentials.iter().cloned().collect();
            builder = builder.with_credentials(Arc::new(Renewed::new(paths, read)));
        }
        let store = builder.build().map_err(|error| not_yet(&error))?;
        let (remote, prefix) = (Remote::Google(store), self.prefix.clone());
        let bucket = Bucket { remote, prefix, cloud: &CLOUD, uploads };
        open(&self.settings, Store::Bucket(bucket), state)
    }
}

/// What the library makes of a file.
fn credentials(path: &Path, bucket: &str, connector: &Connector) -> Result<GcpCredentialProvider, String> {
    let builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_retry(once())
        .with_http_connector(connector.clone());
    let builder = match key_in(path)? {
        Key::ServiceAccount(secret) => builder.with_service_account_key(secret.expose()),
        Key::User => builder.with_application_credentials(path.display().to_string()),
    };
    // Its error may have what is wrong with a key, and so the key.
    let store =
        builder.build().map_err(|_| format!("{} has no private key that can be read", path.display()))?;
    Ok(Arc::clone(store.credentials()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bbq_sink::Kinds;

    use super::*;

    static KINDS: Kinds = Kinds { present: &[&GCS], left_out: &[] };

    #[test]
    fn mistakes_in_the_spec_are_named() {
        for (spec, words) in [
            ("gs:bucket", "no name of a bucket"),
            ("gs://bucket/a//b", "empty part"),
            ("gs://bucket?endpoint=host:9000", "https://HOST:PORT"),
            ("gs://bucket?credentials=/nowhere", "cannot read /nowhere"),
            ("gs://bucket?tls_ca=/nowhere", "/nowhere"),
            ("gs://bucket?region=x", "unknown option"),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words), "{spec}: {error}");
        }
    }

    #[test]
    fn a_file_of_credentials_that_is_of_no_use_is_named_without_what_it_has() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let key =
            r#"{"type":"service_account","private_key":"sesame","private_key_id":"1","client_email":"e"}"#;
        let user =
            r#"{"type":"authorized_user","client_id":"1","client_secret":"sesame","refresh_token":"t"}"#;
        for (text, words) in [
            ("", "is empty"),
            ("sesame", "is not JSON (line 1, column 1)"),
            ("\"sesame\"", "has no \"type\""),
            (r#"{"type":"external_account"}"#, "type \"external_account\", which bbq does not support"),
            (r#"{"type":"service_account","private_key":"sesame"}"#, "has no \"private_key_id\""),
            (r#"{"type":"authorized_user"}"#, "has no \"client_id\""),
        ] {
            fs::write(file.path(), text).unwrap();
            let error = key_in(file.path()).map(drop).unwrap_err();
            assert!(error.contains(words) && !error.contains("sesame"), "{error}");
        }
        for text in [key, user] {
            fs::write(file.path(), text).unwrap();
            assert!(key_in(file.path()).is_ok(), "{text}");
        }
    }

    #[test]
    fn the_file_is_found_as_by_google() {
        let home = tempfile::tempdir().unwrap();
        let gcloud = home.path().join(".config/gcloud");
        let at_home = |name: &str| (name == "HOME").then(|| home.path().display().to_string());
        assert_eq!(of_environment(&at_home), Ok(None));
        fs::create_dir_all(&gcloud).unwrap();
        fs::write(gcloud.join("application_default_credentials.json"), "{}").unwrap();
        assert_eq!(of_environment(&at_home), Ok(Some(gcloud.join("application_default_credentials.json"))));
        let elsewhere = |name: &str| {
            let path = (name == "CLOUDSDK_CONFIG").then(|| home.path().display().to_string());
            path.or_else(|| at_home(name))
        };
        assert!(of_environment(&elsewhere).is_err_and(|why| why.contains("credentials=PATH")));
        let named = |name: &str| {
            let path = (name == "GOOGLE_APPLICATION_CREDENTIALS").then(|| "/named".to_owned());
            path.or_else(|| at_home(name))
        };
        assert_eq!(of_environment(&named), Ok(Some(PathBuf::from("/named"))));
    }
}
