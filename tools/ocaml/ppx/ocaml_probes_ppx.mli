(** Registers the extensions [[%probe]] and [[%probe_is_enabled]] with ppxlib; nothing to call. *)
