//! TLS for protocols that begin without it.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::{BuilderVerifierExt as _, Verifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The certificates of a connection, as PEM.
#[derive(Clone, Copy, Default)]
pub struct TlsFiles<'a> {
    /// The authorities that the server's certificate is checked against; `None` for the system's.
    pub authorities: Option<&'a str>,
    /// The certificate and the private key by which the client shows who it is.
    pub client: Option<(&'a str, &'a str)>,
}

/// Returns the settings of TLS, which always checks the certificate and the name of the server.
///
/// # Errors
/// Returns the reason, without content of a file, if a certificate or a key cannot be read.
pub fn tls_config(files: TlsFiles<'_>) -> Result<Arc<ClientConfig>, String> {
    static SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if files.authorities.is_none() && files.client.is_none() {
        if let Some(config) = SYSTEM.get() {
            return Ok(config.clone());
        }
        let config = Arc::new(build(files)?);
        return Ok(SYSTEM.get_or_init(|| config).clone());
    }
    build(files).map(Arc::new)
}

/// Returns the settings of TLS for a client that connects to an address: the certificate of the server must be valid for `host`.
///
/// # Errors
/// As [`tls_config`], or `host` is no name of a server.
pub fn tls_config_for(files: TlsFiles<'_>, host: &str) -> Result<Arc<ClientConfig>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("`host`: {error}"))?;
    let config = build(files)?;
    let provider = config.crypto_provider().clone();
    let inner: Arc<dyn ServerCertVerifier> = match files.authorities {
        Some(pem) => WebPkiServerVerifier::builder_with_provider(Arc::new(roots(pem)?), provider)
            .build()
            .map_err(|error| error.to_string())?,
        None => Arc::new(Verifier::new(provider).map_err(|error| error.to_string())?),
    };
    let mut config = config;
    config.dangerous().set_certificate_verifier(Arc::new(Named { inner, name }));
    Ok(Arc::new(config))
}

/// Encrypts a connection that was dialled. The certificate of the server must be valid for `host`.
///
/// # Errors
/// Returns the reason if `host` is no name of a server, or if the handshake fails.
pub async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    config: Arc<ClientConfig>,
    host: &str,
) -> Result<TlsStream<S>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("`host`: {error}"))?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| error.to_string())
}

/// Checks a certificate for a name that the client does not know. It leaves out nothing.
#[derive(Debug)]
struct Named {
    inner: Arc<dyn ServerCertVerifier>,
    name: ServerName<'static>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.inner.verify_server_cert(certificate, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn build(files: TlsFiles<'_>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match files.authorities {
        Some(pem) => builder.with_root_certificates(roots(pem)?),
        None => builder.with_platform_verifier().map_err(|error| error.to_string())?,
    };
    let Some((certificate, key)) = files.client else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(certificate, "clientCert")?;
    // The reason could repeat a line of the key.
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    let key = key.map_err(|_| "`clientKey` is not a private key as PEM".to_owned())?;
    builder.with_client_auth_cert(chain, key).map_err(|error| format!("`clientKey`: {error}"))
}

fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "ca")? {
        roots.add(certificate).map_err(|error| format!("`ca`: {error}"))?;
    }
    Ok(roots)
}

fn certificates(pem: &str, input: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!(
            "`{input}` has no certificate as PEM, which begins with `-----BEGIN CERTIFICATE-----`"
        )),
    }
}
