//! The paths that an expression reads, as far as they are known statically.

use minijinja::machinery::ast::{CallArg, Expr, Filter, UnaryOpKind};
use value::Key;

use super::program::NULL;

/// A path that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The leading names: `["steps", "createPage", "results", "id"]`. Empty if the expression reads the whole scope.
    pub path: Box<[Key]>,
    /// The links after the leading names, up to the first dynamic one.
    pub suffix: Vec<Link>,
    /// True if the expression handles absence (`default`, `is defined`, a query with an empty result).
    pub optional: bool,
}

/// A link of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A member by its name.
    Name(Key),
    /// One item of a list.
    Item,
    /// Every item of a list, or every value of a map.
    Every,
}

/// The path whose value is the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectPath<'e> {
    /// The value at this path.
    One(&'e Reference),
    /// The list of all values that match this path.
    Every(&'e Reference),
}

impl Reference {
    /// Creates a reference from links: the leading names, and the rest.
    pub(super) fn new(links: Vec<Link>, optional: bool) -> Self {
        let name = |link: &Link| if let Link::Name(name) = link { Some(name.clone()) } else { None };
        let path: Box<[Key]> = links.iter().map_while(name).collect();
        let suffix = links[path.len()..].to_vec();
        Self { path, suffix, optional }
    }

    /// All links of the path.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.path.iter().cloned().map(Link::Name).chain(self.suffix.iter().cloned())
    }
}

/// Filters whose result is an item of the input list.
const ITEM_FILTERS: [&str; 5] = ["first", "last", "min", "max", "random"];
/// Filters whose result is the input list with fewer items or in another order.
const LIST_FILTERS: [&str; 8] =
    ["list", "sort", "reverse", "unique", "select", "reject", "selectattr", "rejectattr"];
/// Filters that read an attribute of every item of the input list.
const ATTRIBUTE_FILTERS: [&str; 9] =
    ["map", "sort", "unique", "groupby", "selectattr", "rejectattr", "min", "max", "sum"];

/// The path whose value is the value of `expr`; `None` if `expr` computes anything.
pub(super) fn direct_path(expr: &Expr<'_>) -> Option<Vec<Link>> {
    Some(match expr {
        Expr::Var(var) if var.id == NULL => return None,
        Expr::Var(var) => vec![Link::Name(var.id.into())],
        Expr::GetAttr(link) => append(direct_path(&link.expr)?, Link::Name(link.name.into())),
        Expr::GetItem(link) => append(direct_path(&link.expr)?, subscript(&link.subscript_expr)?),
        Expr::Filter(filter) => {
            let list = direct_path(filter.expr.as_ref()?)?;
            match filter.name {
                name if ITEM_FILTERS.contains(&name) => append(list, Link::Item),
                name if LIST_FILTERS.contains(&name) => list,
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The link of a literal subscript; `None` for a dynamic one.
pub(super) fn subscript(expr: &Expr<'_>) -> Option<Link> {
    match expr {
        Expr::Const(constant) => match constant.value.as_str() {
            Some(name) => Some(Link::Name(name.into())),
            None => constant.value.is_integer().then_some(Link::Item),
        },
        // A negative index: `[-1]`.
        Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Neg) => {
            matches!(&op.expr, Expr::Const(constant) if constant.value.is_integer()).then_some(Link::Item)
        }
        _ => None,
    }
}

/// The path of the attribute that a filter reads from every item, such as `| map(attribute='id')`.
pub(super) fn attribute(filter: &Filter<'_>) -> Option<Vec<Link>> {
    if !ATTRIBUTE_FILTERS.contains(&filter.name) {
        return None;
    }
    let positional = ["selectattr", "rejectattr", "groupby"].contains(&filter.name);
    let named = filter.args.iter().find_map(|argument| match argument {
        CallArg::Kwarg("attribute", expr) => Some(expr),
        _ => None,
    });
    let first = filter.args.first().and_then(|argument| match argument {
        CallArg::Pos(expr) if positional => Some(expr),
        _ => None,
    });
    let Some(Expr::Const(constant)) = named.or(first) else { return None };
    let mut links = direct_path(filter.expr.as_ref()?)?;
    links.push(Link::Every);
    for part in constant.value.as_str()?.split('.') {
        links.push(if part.parse::<usize>().is_ok() { Link::Item } else { Link::Name(part.into()) });
    }
    Some(links)
}

fn append(mut links: Vec<Link>, link: Link) -> Vec<Link> {
    links.push(link);
    links
}
