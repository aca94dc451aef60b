(** A ppx rewriter. Linking it registers the extensions [[%probe]] and [[%probe_is_enabled]] with
    ppxlib; it has no functions to call.

    - [[%probe "name" ~args:(a, b) ~enabled_at_init:false handler]] marks a probe site. [handler],
      of type [unit], runs when the probe is enabled. [~args], at most 32 values for tracers, and
      [~enabled_at_init] are optional. A name has up to 1000 characters of [A-Z a-z 0-9 _].
      Tracers know the arguments by name: a variable and a record's field have their own name, and
      [(e [\@name "size"])] names any other expression [e]. Tracers know the types of literals, and
      of arguments with an annotation: [(price : float)], likewise [bool], [char], [int] and
      [string].
    - [[%probe_is_enabled "name"]] is true while the probe is enabled.

    Invalid syntax is an error at compile time, with the location of the payload.

    @since 0.1.0 *)
