//! Compiles the document of a valid schema to a [`Program`].

use std::collections::HashMap;

use serde_json::{Map, Value as Json};
use value::{Number, Value};

use super::ValidationError;
use super::keywords::escape_token;
use super::pattern::Pattern;
use super::program::{Additional, Id, Keyword, Members, Node, Program, Types};
use super::references::References;

/// Compiles a document.
///
/// # Errors
/// Returns an error if a reference leads nowhere or out of the document, or a pattern is unsupported.
pub(super) fn compile(document: &Json) -> Result<Program, ValidationError> {
    let references = References::read(document)
        .map_err(|pointer| ValidationError { pointer, message: "must be an address".to_owned() })?;
    let mut compiler = Compiler {
        document,
        references,
        pointers: vec![String::new()],
        ids: HashMap::from([(String::new(), 0)]),
        targets: Vec::new(),
        anchor_names: Vec::new(),
    };
    let dynamic_anchors = compiler.dynamic_anchors();
    let mut nodes: Vec<Node> = Vec::new();
    while let Some(pointer) = compiler.pointers.get(nodes.len()).cloned() {
        nodes.push(compiler.node(&pointer)?);
    }
    mark_memoized(&mut nodes, &compiler.targets);
    let anchor_names = compiler.anchor_names.len();
    Ok(Program { nodes, root: 0, dynamic_anchors, anchor_names })
}

/// Marks the targets of references from which evaluation reaches another reference.
fn mark_memoized(nodes: &mut [Node], targets: &[Id]) {
    let is_reference = |keyword: &Keyword| matches!(keyword, Keyword::Ref(_) | Keyword::DynamicRef(..));
    let mut reaches: Vec<bool> = nodes.iter().map(|node| node.keywords.iter().any(is_reference)).collect();
    // Children mostly follow their parents, so one or two iterations suffice.
    let mut changed = true;
    while changed {
        changed = false;
        for (id, node) in nodes.iter().enumerate().rev().filter(|(_, node)| !node.is_trivial()) {
            let mut found = reaches[id];
            for child in [node.unevaluated_properties, node.unevaluated_items].into_iter().flatten() {
                found |= reaches[child];
            }
            node.keywords.iter().for_each(|keyword| keyword.children(&mut |child| found |= reaches[child]));
            changed |= found != reaches[id];
            reaches[id] = found;
        }
    }
    for &id in targets {
        nodes[id].memoized = reaches[id];
    }
}

struct Compiler<'d> {
    document: &'d Json,
    references: References,
    /// The pointers of the nodes, by id; those after the compiled nodes are still to be compiled.
    pointers: Vec<String>,
    ids: HashMap<String, Id>,
    /// The targets of references.
    targets: Vec<Id>,
    /// The names of dynamic anchors, by number.
    anchor_names: Vec<String>,
}

impl Compiler<'_> {
    /// The id of the node at a pointer; enqueues the node if it is new.
    fn id(&mut self, pointer: &str) -> Id {
        if let Some(id) = self.ids.get(pointer) {
            return *id;
        }
        self.pointers.push(pointer.to_owned());
        self.ids.insert(pointer.to_owned(), self.pointers.len() - 1);
        self.pointers.len() - 1
    }

    fn anchor_number(&mut self, name: &str) -> usize {
        let found = self.anchor_names.iter().position(|known| known == name);
        found.unwrap_or_else(|| {
            self.anchor_names.push(name.to_owned());
            self.anchor_names.len() - 1
        })
    }

    fn dynamic_anchors(&mut self) -> Vec<Vec<(usize, Id)>> {
        let mut all = Vec::new();
        for resource in 0..self.references.len() {
            let anchors = self.references.dynamic_anchors(resource);
            let mut anchors: Vec<(String, String)> =
                anchors.map(|(name, pointer)| (name.to_owned(), pointer.to_owned())).collect();
            anchors.sort();
            let resource_anchors = anchors.iter().map(|(name, pointer)| {
                let id = self.id(pointer);
                self.targets.push(id);
                (self.anchor_number(name), id)
            });
            all.push(resource_anchors.collect());
        }
        all
    }

    fn node(&mut self, pointer: &str) -> Result<Node, ValidationError> {
        let resource = self.references.resource(pointer);
        let document = self.document;
        match document.pointer(pointer) {
            Some(Json::Bool(false)) => {
                Ok(Node { keywords: vec![Keyword::False], resource, ..Node::default() })
            }
            Some(Json::Object(map)) => {
                let mut node = Node { resource, ..Node::default() };
                let mut reader = Reader { compiler: self, map, pointer, keywords: Vec::new() };
                reader.read_assertions();
                reader.read_reference("$ref", resource)?;
                reader.read_object_keywords()?;
                reader.read_array_keywords();
                reader.read_scalar_keywords()?;
                reader.read_reference("$dynamicRef", resource)?;
                reader.read_applicators();
                node.unevaluated_properties = reader.schema("unevaluatedProperties");
                node.unevaluated_items = reader.schema("unevaluatedItems");
                node.keywords = reader.keywords;
                Ok(node)
            }
            _ => Ok(Node { resource, ..Node::default() }),
        }
    }
}

/// The reader of one subschema.
struct Reader<'c, 'd> {
    compiler: &'c mut Compiler<'d>,
    map: &'d Map<String, Json>,
    pointer: &'c str,
    keywords: Vec<Keyword>,
}

impl<'d> Reader<'_, 'd> {
    fn schema(&mut self, key: &str) -> Option<Id> {
        self.map.contains_key(key).then(|| self.compiler.id(&format!("{}/{key}", self.pointer)))
    }

    fn schemas(&mut self, key: &str) -> Option<Vec<Id>> {
        let count = self.map.get(key)?.as_array()?.len();
        Some((0..count).map(|index| self.compiler.id(&format!("{}/{key}/{index}", self.pointer))).collect())
    }

    fn named_schemas(&mut self, key: &str) -> Option<Vec<(&'d str, Id)>> {
        let map = self.map.get(key)?.as_object()?;
        let named = map.keys().map(|name| {
            (name.as_str(), self.compiler.id(&format!("{}/{key}/{}", self.pointer, escape_token(name))))
        });
        Some(named.collect())
    }

    fn size(&self, key: &str) -> Option<usize> {
        let number = self.map.get(key)?.as_number()?;
        let whole = number.as_u64().or_else(|| {
            let float = number.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0)?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
            Some(float as u64)
        })?;
        Some(usize::try_from(whole).unwrap_or(usize::MAX))
    }

    fn number(&self, key: &str) -> Option<Number> {
        self.map.get(key)?.as_number().cloned()
    }

    fn push(&mut self, keyword: Option<Keyword>) {
        self.keywords.extend(keyword);
    }

    fn read_assertions(&mut self) {
        let mut types = Types::default();
        match self.map.get("type") {
            Some(Json::String(name)) => types.insert(name),
            Some(Json::Array(names)) => {
                names.iter().filter_map(Json::as_str).for_each(|name| types.insert(name));
            }
            _ => {}
        }
        self.push((!types.is_empty()).then_some(Keyword::Type(types)));
        self.push(self.map.get("const").map(|value| Keyword::Const(Value::from_serde(value.clone()))));
        let options = self.map.get("enum").and_then(Json::as_array);
        self.push(options.map(|options| {
            Keyword::Enum(options.iter().map(|option| Value::from_serde(option.clone())).collect())
        }));
    }

    fn read_reference(&mut self, key: &str, resource: usize) -> Result<(), ValidationError> {
        let Some(reference) = self.map.get(key).and_then(Json::as_str) else { return Ok(()) };
        let wrong = |message: String| ValidationError { pointer: format!("{}/{key}", self.pointer), message };
        let target = self.compiler.references.resolve(resource, reference).map_err(wrong)?;
        if self.compiler.document.pointer(&target.pointer).is_none() {
            return Err(wrong(format!("there is no `{reference}` in this schema")));
        }
        let id = self.compiler.id(&target.pointer);
        self.compiler.targets.push(id);
        let keyword = if key == "$ref" {
            Keyword::Ref(id)
        } else {
            let anchor = target.dynamic.map(|name| self.compiler.anchor_number(&name));
            Keyword::DynamicRef(id, anchor)
        };
        self.push(Some(keyword));
        Ok(())
    }

    fn read_object_keywords(&mut self) -> Result<(), ValidationError> {
        self.push(self.size("minProperties").map(Keyword::MinProperties));
        self.push(self.size("maxProperties").map(Keyword::MaxProperties));
        let names = self.map.get("required").map(texts).filter(|names| !names.is_empty());
        self.push(names.map(Keyword::Required));
        let properties = self.named_schemas("properties");
        let patterns = self.named_schemas("patternProperties");
        let additional = match self.map.get("additionalProperties") {
            None => Additional::Unspecified,
            Some(Json::Bool(false)) => Additional::Denied,
            Some(_) => self.schema("additionalProperties").map_or(Additional::Denied, Additional::Schema),
        };
        if properties.is_some() || patterns.is_some() || additional != Additional::Unspecified {
            let mut compiled = Vec::new();
            for (source, id) in patterns.into_iter().flatten() {
                compiled.push((
                    self.pattern(source, &format!("patternProperties/{}", escape_token(source)))?,
                    id,
                ));
            }
            let properties = properties.into_iter().flatten().map(|(name, id)| (name.to_owned(), id));
            let members = Members { properties: properties.collect(), patterns: compiled, additional };
            self.push(Some(Keyword::Members(members)));
        }
        let names = self.schema("propertyNames").map(Keyword::PropertyNames);
        self.push(names);
        let dependent = self.named_schemas("dependentSchemas");
        self.push(dependent.map(|named| {
            Keyword::DependentSchemas(named.into_iter().map(|(name, id)| (name.to_owned(), id)).collect())
        }));
        let dependent = self.map.get("dependentRequired").and_then(Json::as_object);
        self.push(dependent.map(|names| {
            Keyword::DependentRequired(
                names.iter().map(|(name, needs)| (name.clone(), texts(needs))).collect(),
            )
        }));
        Ok(())
    }

    fn read_array_keywords(&mut self) {
        self.push(self.size("minItems").map(Keyword::MinItems));
        self.push(self.size("maxItems").map(Keyword::MaxItems));
        let is_unique = self.map.get("uniqueItems") == Some(&Json::Bool(true));
        self.push(is_unique.then_some(Keyword::UniqueItems));
        let (prefix, rest) = (self.schemas("prefixItems"), self.schema("items"));
        if prefix.is_some() || rest.is_some() {
            self.push(Some(Keyword::Items { prefix: prefix.unwrap_or_default(), rest }));
        }
        if let Some(schema) = self.schema("contains") {
            let (min, max) = (self.size("minContains"), self.size("maxContains"));
            self.push(Some(Keyword::Contains { schema, min, max }));
        }
    }

    fn read_scalar_keywords(&mut self) -> Result<(), ValidationError> {
        self.push(self.size("minLength").map(Keyword::MinLength));
        self.push(self.size("maxLength").map(Keyword::MaxLength));
        if let Some(source) = self.map.get("pattern").and_then(Json::as_str) {
            let pattern = self.pattern(source, "pattern")?;
            self.push(Some(Keyword::Pattern(pattern)));
        }
        self.push(self.number("minimum").map(Keyword::Minimum));
        self.push(self.number("maximum").map(Keyword::Maximum));
        self.push(self.number("exclusiveMinimum").map(Keyword::ExclusiveMinimum));
        self.push(self.number("exclusiveMaximum").map(Keyword::ExclusiveMaximum));
        self.push(self.number("multipleOf").map(Keyword::MultipleOf));
        Ok(())
    }

    fn read_applicators(&mut self) {
        let not = self.schema("not").map(Keyword::Not);
        self.push(not);
        let all = self.schemas("allOf").map(Keyword::AllOf);
        self.push(all);
        let any = self.schemas("anyOf").map(Keyword::AnyOf);
        self.push(any);
        let one = self.schemas("oneOf").map(Keyword::OneOf);
        self.push(one);
        if let Some(condition) = self.schema("if") {
            let (then, otherwise) = (self.schema("then"), self.schema("else"));
            self.push(Some(Keyword::If { condition, then, otherwise }));
        }
    }

    fn pattern(&self, source: &str, key: &str) -> Result<Pattern, ValidationError> {
        Pattern::compile(source).ok_or_else(|| ValidationError {
            pointer: format!("{}/{key}", self.pointer),
            message: format!("`{source}` is not a supported pattern"),
        })
    }
}

fn texts(value: &Json) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
}
