//! The plain clients: SQLite's library, and the programs that PostgreSQL and MariaDB come with.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use postgres_server::{Server, Setup};
use rusqlite::Connection;
use servers::mariadb::MariaDb;
use value::{Map, Value};

use super::{ONE, READ, ROWS, STATEMENTS};
use crate::Error;
use crate::process::run;

/// The password of the account in MariaDB.
const PASSWORD: &str = "measured";

/// A database with its own client.
pub(super) enum Plain {
    Sqlite(Connection),
    Postgres(Server),
    MariaDb(MariaDb),
}

impl Plain {
    /// The databases that this machine has.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>, Error> {
        let mut all = vec![Self::Sqlite(Connection::open(folder.join("rows.db"))?)];
        let arguments = format!("-c listen_addresses={}", Self::address(5));
        all.push(Self::Postgres(Server::start_as(Setup { arguments, ..Setup::default() })?));
        // It is no part of what a benchmark needs otherwise.
        if let Ok(server) = MariaDb::start(&Self::address(6), PASSWORD, &["--local-infile=1".to_owned()]) {
            all.push(Self::MariaDb(server));
        }
        Ok(all)
    }

    /// An address of this machine that nothing else uses.
    fn address(last: u8) -> String {
        format!("127.210.{}.{last}", std::process::id() % 250)
    }

    /// The name of the database, and of the client.
    pub(super) fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Sqlite(_) => ("SQLite", "rusqlite"),
            Self::Postgres(_) => ("PostgreSQL", "psql"),
            Self::MariaDb(_) => ("MariaDB", "mariadb"),
        }
    }

    /// The connection type and its inputs.
    pub(super) fn connection(&self) -> (&'static str, Map) {
        let map = |entries: &[(&'static str, String)]| {
            entries.iter().map(|(name, value)| (*name, Value::from(value.as_str()))).collect()
        };
        let login = |address: String, password: &str| {
            map(&[
                ("host", address),
                ("database", "postgres".to_owned()),
                ("user", "cogwork".to_owned()),
                ("password", password.to_owned()),
                ("tls", "none".to_owned()),
            ])
        };
        match self {
            Self::Sqlite(_) => ("sql.sqlite", map(&[("file", "rows.db".to_owned())])),
            Self::Postgres(_) => ("sql.postgres", login(Self::address(5), "")),
            Self::MariaDb(_) => ("sql.mysql", login(Self::address(6), PASSWORD)),
        }
    }

    /// Makes the tables, with the rows to read.
    pub(super) fn set_up(&self) -> Result<Option<u64>, Error> {
        let tables = "create table numbers (n integer primary key, s varchar(40)); create table copies (n integer, s varchar(40));";
        let recursive = format!(
            "with recursive c (n) as (select 1 union all select n + 1 from c where n < {ROWS}) select n, concat('row ', n) from c"
        );
        match self {
            Self::Sqlite(plain) => {
                let rows = recursive.replace("concat('row ', n)", "'row ' || n");
                plain.execute_batch(&format!(
                    "pragma journal_mode = wal; {tables} insert into numbers {rows}"
                ))?;
                Ok(None)
            }
            Self::Postgres(_) => self.run(&format!("{tables} insert into numbers {recursive};"), None),
            Self::MariaDb(_) => {
                let most = format!("set max_recursive_iterations = {};", ROWS + 1);
                self.run(&format!("{most} {tables} insert into numbers {recursive};"), None)
            }
        }
    }

    /// Writes all rows into a file, as CSV or as the client writes it.
    pub(super) fn export(&self, file: &Path) -> Result<Option<u64>, Error> {
        let output = File::create(file).map_err(Error::io("a file"))?;
        let Self::Sqlite(plain) = self else {
            let sql = match self {
                Self::Postgres(_) => format!("copy ({READ}) to stdout with (format csv, header);"),
                _ => format!("{READ};"),
            };
            return self.run(&sql, Some(output));
        };
        let mut output = BufWriter::new(output);
        let mut statement = plain.prepare_cached(READ)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (number, text): (i64, String) = (row.get(0)?, row.get(1)?);
            writeln!(output, "{number},{text}").map_err(Error::io("a file"))?;
        }
        output.flush().map_err(Error::io("a file"))?;
        Ok(None)
    }

    /// Runs statements one after another, each of which reads one row in a transaction of its own.
    pub(super) fn statements(&self) -> Result<Option<u64>, Error> {
        let Self::Sqlite(plain) = self else {
            return self.run(&format!("{ONE};\n").repeat(STATEMENTS as usize), None);
        };
        for _ in 0..STATEMENTS {
            let transaction = plain.unchecked_transaction()?;
            transaction.prepare_cached(ONE)?.query_row([], |row| row.get::<_, String>(1))?;
            transaction.commit()?;
        }
        Ok(None)
    }

    /// Inserts the rows of a file of CSV with a header.
    pub(super) fn insert(&self, file: &Path) -> Result<Option<u64>, Error> {
        match self {
            Self::Sqlite(plain) => {
                let transaction = plain.unchecked_transaction()?;
                let mut statement = transaction.prepare_cached("insert into copies (n, s) values (?, ?)")?;
                for number in 0..ROWS {
                    statement.execute((number, format!("row {number}")))?;
                }
                drop(statement);
                transaction.commit()?;
                Ok(None)
            }
            Self::Postgres(_) => {
                let rows = std::fs::read_to_string(file).map_err(Error::io("the rows"))?;
                self.run(&format!("copy copies from stdin with (format csv, header);\n{rows}\\.\n"), None)
            }
            Self::MariaDb(_) => {
                let path = file.display();
                self.run(
                    &format!(
                        "load data local infile '{path}' into table copies fields terminated by ',' ignore 1 lines;"
                    ),
                    None,
                )
            }
        }
    }

    /// Deletes what was inserted.
    pub(super) fn clear(&self) -> Result<Option<u64>, Error> {
        match self {
            Self::Sqlite(plain) => {
                plain.execute("delete from copies", [])?;
                Ok(None)
            }
            _ => self.run("truncate table copies;", None),
        }
    }

    /// Gives statements to the client's program, and returns the memory that it had, in bytes.
    fn run(&self, sql: &str, output: Option<File>) -> Result<Option<u64>, Error> {
        let mut client: Command = match self {
            Self::Sqlite(_) => return Err(Error::Server("SQLite has no program here".to_owned())),
            Self::Postgres(server) => {
                let mut client = server.command("psql");
                let mut address = String::new();
                let _ = write!(address, "host={} user=cogwork dbname=postgres", server.folder().display());
                client.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]).arg(address);
                client
            }
            Self::MariaDb(server) => {
                let mut client = server.client();
                client.args(["--local-infile=1", "--batch", "--quick", "postgres"]);
                client
            }
        };
        client.stdout(output.map_or_else(Stdio::null, Stdio::from));
        run(&mut client, sql.as_bytes())
    }
}
