//! `#[boxed]` makes an `async fn` a function that returns its future in a box.
//!
//! ```text
//!   #[boxed]                                      fn sync<'boxed>(&'boxed self, txg: Txg)
//!   async fn sync(&self, txg: Txg) -> Done {  ─►      -> Pin<Box<dyn Future<Output = Done> + Send + 'boxed>>
//!       BODY                                      {
//!   }                                                 Box::pin(async move { BODY })
//!                                                 }
//! ```
//! A crate that awaits a future compiles the code of the future and of all futures inside, unless there is a box
//! between: the code of a box is compiled where the box is made. The functions by which crates call each other have
//! this attribute where a call costs more than an allocation: a request to a device, a change of a dataset. Calls that a
//! cache mostly answers do not. (docs/decisions/2026-11-30-boxed-futures.md)
//!
//! All lifetimes that the signature leaves out become one, that of the future. Why no library: `async-recursion`
//! knows neither `self: &Arc<Self>` nor `'_`.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use quote::quote;
use syn::visit_mut::{self, VisitMut};
use syn::{
    FnArg, GenericParam, ItemFn, Lifetime, ParenthesizedGenericArguments, ReturnType, TypeBareFn,
    TypeReference, parse_macro_input, parse_quote,
};

/// See the crate.
#[proc_macro_attribute]
pub fn boxed(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = parse_macro_input!(item as ItemFn);
    let signature = &mut function.sig;
    if signature.asyncness.take().is_none() {
        return quote!(compile_error!("only an async fn has a future to put into a box");).into();
    }
    let future: Lifetime = parse_quote!('boxed);
    let mut elided = Elided { name: future.clone() };
    signature.inputs.iter_mut().for_each(|input| elided.visit_fn_arg_mut(input));
    let outlives = signature.generics.params.iter().filter_map(|param| match param {
        GenericParam::Lifetime(param) => Some(&param.lifetime).map(|lifetime| quote!(#lifetime: #future)),
        GenericParam::Type(param) => Some(&param.ident).map(|ident| quote!(#ident: #future)),
        GenericParam::Const(_) => None,
    });
    let outlives: Vec<_> = outlives.collect();
    for bound in outlives {
        signature.generics.make_where_clause().predicates.push(parse_quote!(#bound));
    }
    signature.generics.params.insert(0, parse_quote!(#future));
    elided.visit_return_type_mut(&mut signature.output);
    let output = match &signature.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, output) => quote!(#output),
    };
    signature.output = parse_quote! {
        -> ::std::pin::Pin<::std::boxed::Box<
            dyn ::std::future::Future<Output = #output> + ::std::marker::Send + #future>>
    };
    let body = &function.block;
    function.block = parse_quote!({ ::std::boxed::Box::pin(async move #body) });
    quote!(#function).into()
}

/// Names the lifetimes that a signature leaves out.
struct Elided {
    name: Lifetime,
}

impl VisitMut for Elided {
    fn visit_fn_arg_mut(&mut self, arg: &mut FnArg) {
        match arg {
            FnArg::Receiver(receiver) => match &mut receiver.reference {
                Some((_, lifetime)) => {
                    lifetime.get_or_insert_with(|| self.name.clone());
                    // The type of `&self` follows from the reference, and syn keeps a copy of it.
                    self.visit_type_mut(&mut receiver.ty);
                }
                None => self.visit_type_mut(&mut receiver.ty),
            },
            FnArg::Typed(typed) => self.visit_type_mut(&mut typed.ty),
        }
    }

    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        reference.lifetime.get_or_insert_with(|| self.name.clone());
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = self.name.clone();
        }
    }

    // What the arguments of a function that is an argument leave out is for each call of it.
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}

    fn visit_type_bare_fn_mut(&mut self, _: &mut TypeBareFn) {}
}
