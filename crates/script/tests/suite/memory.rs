//! A failed allocation ends the run and its worker, even if the code catches the error.

use script::{Error, Pool};

use crate::support::{result, settings, step};

fn small_pool() -> Pool {
    let mut settings = settings(1);
    settings.memory = 8 * 1024 * 1024;
    Pool::new(settings)
}

#[tokio::test]
async fn code_that_catches_an_out_of_memory_error_still_fails() {
    let pool = small_pool();
    for body in [
        "try { new ArrayBuffer(2 ** 25) } catch {} return 'went on'",
        "try { 'x'.repeat(2 ** 25) } catch {} return 'went on'",
        "try { new Array(2 ** 22).fill(0) } finally { return 'went on' }",
        "const a = []; try { for (;;) a.push({}) } catch { return 'went on' }",
        "const a = []; try { for (;;) a.push('x'.repeat(1000) + a.length) } catch { a.length = 0 } return 'went on'",
        "let o = null; try { for (;;) o = { o } } catch { o = null } return 'went on'",
        "let f = () => 1; try { for (;;) { const g = f; f = () => g } } catch { f = null } return 'went on'",
        "await Promise.resolve().then(() => { const a = []; for (;;) a.push({}) }).catch(() => 1); return 'went on'",
        "await Promise.allSettled([(async () => { const a = []; for (;;) a.push(new Date()) })()]); return 'went on'",
        "(async () => { await null; const a = []; for (;;) a.push(/a/) })().catch(() => 1); return 'went on'",
        "const a = []; const go = () => { try { for (;;) a.push({}) } catch { a.length = 0 } }; go(); return [1, 2].map(() => 1)",
        "try { JSON.parse('[' + '[],'.repeat(1e6) + '[]]') } catch { throw new Error('of its own') }",
        "try { structuredClone(new Uint8Array(2 ** 22).fill(1)); structuredClone(new Uint8Array(2 ** 22)) } catch { return 1 }",
        "for (;;) { try { const a = []; for (;;) a.push(new Array(1000).fill(1)) } catch {} }",
        "try { '\\ufdfa'.repeat(200000).normalize('NFKD') } catch (error) { return typeof error }",
        "try { '\\ufdfa'.repeat(200000).normalize('NFKD') } finally { return 'went on' }",
        "try { ['\\ufdfa'.repeat(200000)].map((text) => text.normalize('NFKD')) } catch { return 'went on' }",
        "return await Promise.resolve('\\ufdfa'.repeat(200000)).then((text) => text.normalize('NFKD')).catch(() => 'went on')",
        "try { await { then: String.prototype.normalize.bind('\\ufdfa'.repeat(200000), 'NFKD') } } catch { return 'went on' }",
        "class Own extends Error {} try { for (let o = null; ;) o = { o } } catch (error) { throw new Own('mine') }",
    ] {
        let code = format!("export default async () => {{ {body} }}");
        let ended = step(&code).on(&pool).await;
        assert!(matches!(ended, Err(Error::OutOfMemory { .. })), "{body}: {ended:?}");
        assert_eq!(result(&pool, "export default () => 1").await, "1");
    }
}

#[tokio::test]
async fn errors_that_resemble_out_of_memory_are_the_authors() {
    let pool = small_pool();
    for (body, message) in [
        ("throw new Error('out of memory')", "out of memory"),
        ("throw null", "the code threw null: it did so itself, or ran out of memory"),
        ("try { throw null } catch {} throw new RangeError('out of memory')", "RangeError: out of memory"),
        ("new ArrayBuffer(2 ** 60)", "RangeError: invalid array index"),
        ("'x'.repeat(2 ** 30)", "RangeError: invalid string length"),
    ] {
        let code = format!("export default () => {{ {body} }}");
        let ended = step(&code).on(&pool).await;
        let Err(Error::Thrown(failure)) = &ended else { panic!("{body}: {ended:?}") };
        assert_eq!(failure.message, message, "{body}");
    }
}
