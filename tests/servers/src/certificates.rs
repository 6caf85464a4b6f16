//! An authority of tests, and a certificate of it.

use std::io;
use std::path::Path;
use std::process::Command;

/// Writes the authorities `ca.pem` and `other.pem`, and `certificate.pem` and `.key` of the first, for an address.
///
/// # Errors
/// `openssl` fails.
pub fn write(folder: &Path, address: &str) -> io::Result<()> {
    let run = |arguments: &str| {
        let done = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output()?;
        let reason = || io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned());
        if done.status.success() { Ok(()) } else { Err(reason()) }
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for name in ["ca", "other"] {
        run(&format!("req -x509 {key} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"))?;
    }
    run(&format!("req {key} -subj /CN=server -keyout certificate.key -out certificate.csr"))?;
    std::fs::write(folder.join("ext"), format!("subjectAltName=IP:{address}"))?;
    run(
        "x509 -req -in certificate.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out certificate.pem",
    )
}
