//! How a sink proves to a NATS server who it is.

use std::fs;
use std::io;
use std::path::PathBuf;

use async_nats::ConnectOptions;
use bbq_spec::{ConfigError, Query, Secret};

/// One way, or none.
#[derive(Clone, Debug)]
pub(super) enum Credentials {
    None,
    Password {
        user: String,
        password: Secret,
    },
    Token(Secret),
    Nkey(Secret),
    /// Read for each connection.
    File(PathBuf),
}

/// What is wrong with the options.
pub(super) enum Mistake {
    Config(ConfigError),
    Text(String),
}

impl From<ConfigError> for Mistake {
    fn from(error: ConfigError) -> Mistake {
        Mistake::Config(error)
    }
}

impl Credentials {
    /// Takes the options.
    pub(super) fn take(query: &mut Query<'_>) -> Result<Credentials, Mistake> {
        let user = query.take("user", |user| Ok(user.to_owned()))?;
        let password = query.take_secret("password")?;
        let ways = [
            match (user, password) {
                (Some(user), Some(password)) => Some(Credentials::Password { user, password }),
                (None, None) => None,
                (Some(_), None) => {
                    return Err(Mistake::Text(
                        "user needs password_file=PATH or password_env=NAME".to_owned(),
                    ));
                }
                (None, Some(_)) => return Err(Mistake::Text("the password needs user=NAME".to_owned())),
            },
            query.take_secret("token")?.map(Credentials::Token),
            query.take_secret("nkey")?.map(Credentials::Nkey),
            query.take("creds", |path| Ok(PathBuf::from(path)))?.map(Credentials::File),
        ];
        let mut ways = ways.into_iter().flatten();
        match (ways.next(), ways.next()) {
            (None, _) => Ok(Credentials::None),
            (Some(way), None) => {
                // Mistakes are told at the start.
                way.apply(ConnectOptions::new()).map_err(|error| Mistake::Text(error.to_string()))?;
                Ok(way)
            }
            _ => Err(Mistake::Text(
                "user, token, nkey and creds contradict each other; keep one way".to_owned(),
            )),
        }
    }

    /// Adds them to what async-nats connects with.
    pub(super) fn apply(&self, options: ConnectOptions) -> io::Result<ConnectOptions> {
        Ok(match self {
            Credentials::None => options,
            Credentials::Password { user, password } => {
                options.user_and_password(user.clone(), password.expose().to_owned())
            }
            Credentials::Token(token) => options.token(token.expose().to_owned()),
            Credentials::Nkey(seed) => options.nkey(seed.expose().to_owned()),
            Credentials::File(path) => {
                let shown = path.display();
                let text = fs::read_to_string(path).map_err(|error| {
                    io::Error::new(error.kind(), format!("creds: cannot read {shown}: {error}"))
                })?;
                options.credentials(&text).map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!("creds: {shown} is not a file of credentials: {error}"),
                    )
                })?
            }
        })
    }
}
