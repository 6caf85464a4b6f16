//! What an expression reads, as far as it is known before it runs.

use minijinja::machinery::ast::{CallArg, Expr, Filter, UnaryOpKind};

use crate::value::Key;

/// A path that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The names from the root on: `["steps", "createPage", "results", "id"]`. Empty where everything is read.
    pub path: Box<[Key]>,
    /// What follows them, up to what only a run can tell.
    pub rest: Vec<Link>,
    /// Whether the expression provides for its absence (`default`, `is defined`, a query that may be empty).
    pub optional: bool,
}

/// One link of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A member by its name.
    Name(Key),
    /// One item of a list.
    Item,
    /// Every item of a list, or every value of a map.
    Every,
}

/// What the value of an expression is, where it is nothing but what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole<'e> {
    /// What stands at the end of this path.
    One(&'e Reference),
    /// The list of everything that stands at the end of this path.
    Every(&'e Reference),
}

impl Reference {
    /// The path with these links: its leading names, and the rest.
    pub(super) fn of(links: Vec<Link>, optional: bool) -> Self {
        let name = |link: &Link| if let Link::Name(name) = link { Some(name.clone()) } else { None };
        let path: Box<[Key]> = links.iter().map_while(name).collect();
        let rest = links[path.len()..].to_vec();
        Self { path, rest, optional }
    }

    /// All links of the path.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.path.iter().cloned().map(Link::Name).chain(self.rest.iter().cloned())
    }
}

/// Filters that give an item of the list before them.
const ITEM: [&str; 5] = ["first", "last", "min", "max", "random"];
/// Filters that give the list before them with other items or in another order.
const SAME: [&str; 8] = ["list", "sort", "reverse", "unique", "select", "reject", "selectattr", "rejectattr"];
/// Filters that read an attribute of every item of the list before them.
const ATTRIBUTE: [&str; 9] =
    ["map", "sort", "unique", "groupby", "selectattr", "rejectattr", "min", "max", "sum"];

/// The path whose end is the value of `expr`, if that is all it is.
pub(super) fn whole(expr: &Expr<'_>) -> Option<Vec<Link>> {
    Some(match expr {
        Expr::Var(var) => vec![Link::Name(var.id.into())],
        Expr::GetAttr(link) => and(whole(&link.expr)?, Link::Name(link.name.into())),
        Expr::GetItem(link) => and(whole(&link.expr)?, subscript(&link.subscript_expr)?),
        Expr::Filter(filter) => {
            let list = whole(filter.expr.as_ref()?)?;
            match filter.name {
                name if ITEM.contains(&name) => and(list, Link::Item),
                name if SAME.contains(&name) => list,
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// What a subscript leads to, if it is written out.
pub(super) fn subscript(expr: &Expr<'_>) -> Option<Link> {
    match expr {
        Expr::Const(constant) => match constant.value.as_str() {
            Some(name) => Some(Link::Name(name.into())),
            None => constant.value.is_integer().then_some(Link::Item),
        },
        // From the end: `[-1]`.
        Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Neg) => {
            matches!(&op.expr, Expr::Const(constant) if constant.value.is_integer()).then_some(Link::Item)
        }
        _ => None,
    }
}

/// The path of the attribute that a filter reads of every item, such as `| map(attribute='id')`.
pub(super) fn attribute(filter: &Filter<'_>) -> Option<Vec<Link>> {
    if !ATTRIBUTE.contains(&filter.name) {
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
    let mut links = whole(filter.expr.as_ref()?)?;
    links.push(Link::Every);
    for part in constant.value.as_str()?.split('.') {
        links.push(if part.parse::<usize>().is_ok() { Link::Item } else { Link::Name(part.into()) });
    }
    Some(links)
}

fn and(mut links: Vec<Link>, link: Link) -> Vec<Link> {
    links.push(link);
    links
}
