//! `az://ACCOUNT/CONTAINER/PREFIX`: Azure Blob Storage.
//!
//! Credentials are those of the SPEC, of the variables that `az storage` reads (AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY,
//! AZURE_STORAGE_SAS_TOKEN), or of Azure's libraries (AZURE_CLIENT_ID and so on), or the identity of the machine.

use std::sync::Arc;

use bbq_sink::{Kind, Now, OpenError, PROXY, Sink, Target, tls_options};
use bbq_spec::{ConfigError, Query, Secret, SpecOption, Values};
use bbq_storage::Storage;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use super::connection::{Connection, once};
use super::settings::ObjectSettings;
use super::store::{Bucket, Cloud, Remote, Store};
use super::target::{OBJECT_OPTIONS, bucket_and_prefix, endpoint, open, settings, variable};

static CLOUD: Cloud = Cloud {
    condition: "If-None-Match: *",
    has_suffix_ranges: false,
    no_bucket: "check that the container exists; bbq does not create it",
    no_access: "check access_key or sas, or what the environment has for them, and what they may do (create and read blobs)",
};

/// `az://ACCOUNT/CONTAINER/PREFIX`
pub static AZURE: Kind = Kind {
    word: "az",
    argument: "//ACCOUNT/CONTAINER[/PREFIX]",
    summary: "writes objects to Azure Blob Storage, each message exactly once",
    options: &[
        &OBJECT_OPTIONS,
        &[
            SpecOption {
                key: "endpoint",
                values: Values::Text { form: "URL", pattern: "" },
                default: "that of AZURE_STORAGE_CONNECTION_STRING, or Azure's",
                meaning: "the URL of the account's blobs, such as `http://HOST:10000/ACCOUNT` of an emulator",
            },
            SpecOption {
                key: "access_key",
                values: Values::Secret,
                default: "AZURE_STORAGE_KEY, or the identity of the machine",
                meaning: "a key of the account",
            },
            SpecOption {
                key: "sas",
                values: Values::Secret,
                default: "AZURE_STORAGE_SAS_TOKEN",
                meaning: "a shared access signature, as `az storage container generate-sas` creates it, instead of `access_key`",
            },
            PROXY,
            tls_options::CA,
        ],
    ],
    is_exclusive: false,
    parse,
};

#[derive(Debug)]
struct AzureTarget {
    settings: ObjectSettings,
    account: String,
    container: String,
    /// Empty, or ends with a slash.
    prefix: String,
    access: Access,
    connection: Connection,
}

/// How the account is reached, and by what.
#[derive(Debug, Default)]
struct Access {
    endpoint: Option<String>,
    key: Option<Secret>,
    sas: Option<Secret>,
}

fn parse(argument: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    let shown = format!("az:{argument}");
    let wrong =
        |why: &str| ConfigError::new(format!("{shown:?}: {why}; write az://ACCOUNT/CONTAINER/PREFIX"));
    let (account, rest) = argument.strip_prefix("//").unwrap_or_default().split_once('/').unwrap_or_default();
    if account.is_empty() || !account.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Err(wrong("it has no name of an account and a container"));
    }
    let (container, prefix) = bucket_and_prefix(rest)
        .map_err(|why| wrong(if why.contains("bucket") { "it has no name of a container" } else { why }))?;
    let given = Access {
        endpoint: query.take("endpoint", endpoint)?,
        key: query.take_secret("access_key")?,
        sas: query.take_secret("sas")?,
    };
    if given.key.is_some() && given.sas.is_some() {
        return Err(wrong("access_key and sas contradict each other; leave one of the two out"));
    }
    let access = given.or_of_environment(account, &variable).map_err(|problem| wrong(&problem))?;
    let connection = Connection::take(&shown, query)?;
    let (account, container) = (account.to_owned(), container.to_owned());
    let settings = settings(shown.clone(), query)?;
    Ok(Arc::new(AzureTarget { settings, account, container, prefix, access, connection }))
}

impl Access {
    /// What is not given is that of the variables of `az storage`, if they are about this account. The library reads others.
    fn or_of_environment(
        self,
        account: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Access, String> {
        const CONNECTION: &str = "AZURE_STORAGE_CONNECTION_STRING";
        let is_given = self.key.is_some() || self.sas.is_some();
        let secret = |name: &str, text: Option<&str>| {
            let secret = text.filter(|_| !is_given).map(Secret::of_text).transpose();
            secret.map_err(|problem| format!("{name} {problem}"))
        };
        let other = |name: &str, of: &str| {
            format!(
                "{name} is of the account {of:?}, not of {account:?}; set access_key_file=PATH, or another environment"
            )
        };
        if let Some(text) = environment(CONNECTION) {
            let get = |key: &str| {
                let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
                pairs
                    .filter(|(name, _)| name.trim().eq_ignore_ascii_case(key))
                    .map(|(_, value)| value.trim())
                    .next()
            };
            let of = get("AccountName").or_else(|| get("BlobEndpoint").and_then(account_of));
            return match of {
                Some(of) if of == account => Ok(Access {
                    endpoint: match self.endpoint {
                        None => connection_endpoint(account, &get)
                            .map_err(|problem| format!("{CONNECTION}: {problem}"))?,
                        given => given,
                    },
                    key: self.key.or(secret(CONNECTION, get("AccountKey"))?),
                    sas: self.sas.or(secret(CONNECTION, get("SharedAccessSignature"))?),
                }),
                // Somebody who gives all of it does not mean the environment.
                _ if is_given => Ok(self),
                Some(of) => Err(other(CONNECTION, of)),
                None => Err(format!(
                    "{CONNECTION} does not say of which account it is; add AccountName={account}"
                )),
            };
        }
        let (key, sas) = (environment("AZURE_STORAGE_KEY"), environment("AZURE_STORAGE_SAS_TOKEN"));
        let of_other = environment("AZURE_STORAGE_ACCOUNT").filter(|of| of != account);
        if let Some(of) = of_other.filter(|_| !is_given && (key.is_some() || sas.is_some())) {
            let name = if key.is_some() { "AZURE_STORAGE_KEY" } else { "AZURE_STORAGE_SAS_TOKEN" };
            return Err(other(name, &of));
        }
        Ok(Access {
            endpoint: self.endpoint,
            key: self.key.or(secret("AZURE_STORAGE_KEY", key.as_deref())?),
            sas: self.sas.or(secret("AZURE_STORAGE_SAS_TOKEN", sas.as_deref())?),
        })
    }
}

/// The account in the URL of its blobs: `https://ACCOUNT.blob...`, or of an emulator `http://HOST/ACCOUNT`.
fn account_of(url: &str) -> Option<&str> {
    let (host, path) = url.split_once("://")?.1.split_once('/').unwrap_or((url.split_once("://")?.1, ""));
    match host.split_once(".blob.") {
        Some((account, _)) => Some(account),
        None => path.split('/').next().filter(|account| !account.is_empty()),
    }
}

/// Where a connection string says that the account's blobs are; `None` at Azure itself.
fn connection_endpoint<'a>(
    account: &str,
    get: &impl Fn(&str) -> Option<&'a str>,
) -> Result<Option<String>, String> {
    if let Some(url) = get("BlobEndpoint") {
        return endpoint(url).map(Some);
    }
    let protocol = get("DefaultEndpointsProtocol").unwrap_or("https");
    get("EndpointSuffix").map(|suffix| endpoint(&format!("{protocol}://{account}.blob.{suffix}"))).transpose()
}

impl Target for AzureTarget {
    fn memory_bytes_min(&self) -> u64 {
        self.settings.memory_bytes_min()
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let not_yet = |error: &dyn std::fmt::Display| self.settings.not_yet(error);
        let connector = self.connection.connector().map_err(|error| not_yet(&error))?;
        let uploads = connector.uploads();
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_account(&self.account)
            .with_container_name(&self.container)
            // The command `az` would hold up the sink, and an emulator is an endpoint.
            .with_use_azure_cli(false)
            .with_use_emulator(false)
            .with_allow_http(true)
            .with_retry(once())
            .with_http_connector(connector);
        let of_environment = builder.get_config_value(&AzureConfigKey::Endpoint);
        let found = of_environment.map(|url| endpoint(&url)).transpose();
        let found =
            found.map_err(|problem| not_yet(&format!("the endpoint of the environment: {problem}")))?;
        if let Some(endpoint) = self.access.endpoint.clone().or(found) {
            builder = builder.with_endpoint(endpoint);
        }
        // Named, so that nothing of the environment goes before it.
        if let Some(key) = &self.access.key {
            builder = builder.with_access_key(key.expose()).with_credential_type("access_key");
        } else if let Some(sas) = &self.access.sas {
            builder =
                builder.with_config(AzureConfigKey::SasKey, sas.expose()).with_credential_type("sas_token");
        }
        // Errors about keys may have parts of them.
        let store = builder.build().map_err(|error| {
            match self.access.key.is_some() || self.access.sas.is_some() {
                true => not_yet(&"access_key or sas is not as Azure writes it; copy it again"),
                false => not_yet(&error),
            }
        })?;
        let (remote, prefix) = (Remote::Azure(store), self.prefix.clone());
        let bucket = Bucket { remote, prefix, cloud: &CLOUD, uploads };
        open(&self.settings, Store::Bucket(bucket), state)
    }
}

#[cfg(test)]
mod tests {
    use bbq_sink::Kinds;

    use super::*;

    static KINDS: Kinds = Kinds { present: &[&AZURE], left_out: &[] };

    #[test]
    fn mistakes_in_the_spec_are_named() {
        for (spec, words) in [
            ("az:account/logs", "no name of an account"),
            ("az://account", "no name of an account and a container"),
            ("az://account/", "no name of a container"),
            ("az://My.Account/logs", "no name of an account"),
            ("az://account/logs/a//b", "empty part"),
            ("az://account/logs?endpoint=host:10000", "https://HOST:PORT"),
            ("az://account/logs?access_key=sesame", "access_key_file=PATH"),
            ("az://account/logs?access_key_env=PATH&sas_env=PATH", "contradict each other"),
            ("az://account/logs?tls_ca=/nowhere", "/nowhere"),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("sesame"), "{spec}: {error}");
        }
        assert!(KINDS.parse("az://account1/logs/a/b/?access_key_env=PATH").is_ok());
    }

    fn access(
        given: Access,
        variables: &[(&str, &str)],
    ) -> Result<(Option<String>, Vec<Option<String>>), String> {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let access = given.or_of_environment("mine", &value)?;
        let shown = |secret: Option<Secret>| secret.map(|secret| secret.expose().to_owned());
        Ok((access.endpoint, vec![shown(access.key), shown(access.sas)]))
    }

    #[test]
    fn the_environment_counts_if_it_is_about_the_account() {
        let some = |text: &str| Some(text.to_owned());
        let text = "DefaultEndpointsProtocol=http;AccountName=mine;AccountKey=a+b==;BlobEndpoint=http://127.0.0.1:1/mine;";
        let connection = ("AZURE_STORAGE_CONNECTION_STRING", text);
        let found = access(Access::default(), &[connection]).unwrap();
        assert_eq!(found, (some("http://127.0.0.1:1/mine"), vec![some("a+b=="), None]));
        let given = Access { key: Some(Secret::of_text("given").unwrap()), ..Access::default() };
        assert_eq!(access(given, &[connection]).unwrap().1, vec![some("given"), None]);
        let of_china = "AccountName=mine;AccountKey=a==;EndpointSuffix=core.chinacloudapi.cn";
        let found = access(Access::default(), &[("AZURE_STORAGE_CONNECTION_STRING", of_china)]).unwrap();
        assert_eq!(found.0, some("https://mine.blob.core.chinacloudapi.cn"));
        let by_sas = "BlobEndpoint=https://mine.blob.core.windows.net/;SharedAccessSignature=sig=x";
        let found = access(Access::default(), &[("AZURE_STORAGE_CONNECTION_STRING", by_sas)]).unwrap();
        assert_eq!(found, (some("https://mine.blob.core.windows.net"), vec![None, some("sig=x")]));
        let nobody = [("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=sesame")];
        assert!(access(Access::default(), &nobody).unwrap_err().ends_with("add AccountName=mine"));
        let sas = [("AZURE_STORAGE_SAS_TOKEN", "sig=x"), ("AZURE_STORAGE_ACCOUNT", "mine")];
        assert_eq!(access(Access::default(), &sas).unwrap(), (None, vec![None, some("sig=x")]));
        for variables in [
            vec![("AZURE_STORAGE_CONNECTION_STRING", "AccountName=theirs;AccountKey=sesame")],
            vec![("AZURE_STORAGE_KEY", "sesame"), ("AZURE_STORAGE_ACCOUNT", "theirs")],
            vec![(
                "AZURE_STORAGE_CONNECTION_STRING",
                "BlobEndpoint=https://theirs.blob.core.windows.net/;SharedAccessSignature=sig=sesame",
            )],
            vec![(
                "AZURE_STORAGE_CONNECTION_STRING",
                "BlobEndpoint=http://127.0.0.1:1/theirs;AccountKey=sesame",
            )],
        ] {
            let error = access(Access::default(), &variables).unwrap_err();
            assert!(error.contains("of the account \"theirs\"") && !error.contains("sesame"), "{error}");
            let given = Access { sas: Some(Secret::of_text("given").unwrap()), ..Access::default() };
            assert_eq!(access(given, &variables).unwrap().1, vec![None, some("given")].clone());
        }
    }
}
