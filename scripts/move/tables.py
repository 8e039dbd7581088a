"""Tables of the move: modules, splits, symbols, words. Keys are of the old layout; stale keys are only noted."""

from __future__ import annotations

import fnmatch

# ---------------------------------------------------------------- modules: old = new, below ksame

_MOVES = """
adhoc=pipeline.adhoc  openset=pipeline.openset  pipeline=pipeline.photos  videos=pipeline.videos
ahead=core.parallel  apart=analysis.strata  gather=analysis.photos  naming=analysis.identify
core=core.guarantee  geometry=core.geometry  journal=core.checkpoint
weights=models.weights  networks=models.runtime  scratch=core.scratch  text=core.text  tone=render.tone
demo=cli.demo  drawing=methods.drawing  estimator=methods.microaggregator  render=render.portrait
scenes=render.scene  training=lab.training.appearance_model
attack._given=attack.arguments  attack.attacks=attack.attacks  attack.background=attack.background
attack.classic=attack.classic  attack.groups=attack.groups  attack.pixels=attack.degradation
attack.recognise=attack.recognisers  attack.score=attack.score  attack.see=attack.embed
cli._lab=cli.lab_commands  cli._release=cli.release_commands  cli._said=cli.summary  cli._shell=cli.shell
experiments=lab.experiments  experiments.anonfaces=lab.experiments.anonfaces
experiments.anonfaces_drawn=lab.experiments.anonfaces_portraits
experiments.anonfaces_view=lab.experiments.anonfaces_data  experiments.base=lab.experiments.base
experiments.face_images=lab.experiments.face_images  experiments.gross=lab.experiments.gross
experiments.gross_lab=lab.experiments.gross_setup  experiments.newton=lab.experiments.newton
experiments.plots=lab.experiments.plots  experiments.sun=lab.experiments.sun
experiments.sun_photos=lab.experiments.sun_photos
faces.attributes=models.attributes  faces.blendshapes=models.blendshapes  faces.detect=models.detectors
faces.landmarks=models.landmarks  faces.left=analysis.residual  faces.subjects=analysis.subjects
faces.search=analysis.search  faces.linking=analysis.linking
faces.follow=analysis.tracking.propagate  faces.join=analysis.tracking.link
faces.places=analysis.tracking.interpolate  faces.shelf=analysis.tracking.mesh_store
faces.sight=analysis.tracking.scan  faces.steady=analysis.tracking.smooth
faces.track=analysis.tracking.track  faces.tracks_json=analysis.tracking.track_file
masking.brows=render.overlay.brows  masking.choose=methods.shift.choose  masking.features=render.overlay.features
masking.hiding=methods.shift.margin  masking.look=render.overlay.frame_code  masking.looks=render.overlay.views
masking.mask=render.overlay.face_overlay  masking.mouth=render.overlay.mouth
masking.pictures=render.overlay.textures
media=io  media._boxes=io.containers  media._find=io.find  media._metadata=io.metadata
media._read=io.photos  media._sound=io.audio  media._video=io.video
media._video_metadata=io.video_metadata  media._video_pick=io.video_seek
media._video_write=io.video_write  media._write=io.photo_write
obscure=methods.obscure  obscure._face=methods.obscure.face_region  obscure._shapes=methods.obscure.shapes
obscure._values=methods.obscure.values
partition._left=partition.remaining  partition._people=partition.people  partition.judge=partition.quality
pool=methods.shift.pool  pool.build=methods.shift.pool.build  pool.gan=methods.shift.pool.gan
pool.generator=methods.shift.pool.code_generator  pool.learn=lab.training.parameter_gan
portraits.glance=methods.anonfaces.preview  portraits.group=methods.anonfaces.group
portraits.judge=methods.anonfaces.verifiers  portraits.learn=lab.training.generator_map
portraits.measure=methods.anonfaces.measure  portraits.people=methods.shift.pool.synthetic_people
portraits.styles=methods.anonfaces.styles  portraits.surrogate=methods.anonfaces.portrait_search
portraits.texture=methods.shift.pool.skin_texture  portraits.turns=methods.anonfaces.retry_scheduler
portraits.unasked=methods.anonfaces.artifact_detector  portraits.wishes=methods.anonfaces.targets
release=release  release._make=release.writer  release._private=release.private  release._verify=release.verify
replace._codes=replace.codes  replace._pairs=replace.pairs
report.afresh=audit.rerun  report.charts=audit.report.charts  report.clips=audit.video.video_audit
report.evidence=audit.pairing  report.examine=audit.run  report.footage=audit.video.video_metrics
report.page=audit.report.page  report.record=audit.report.result  report.trials=audit.suite
report.watching=audit.video.video_compare  report.words=audit.report.wording
represent=spaces  represent.appearance=spaces.appearance  represent.descriptor=models.dlib_network
represent.eigen=spaces.eigen  represent.embedding=models.recognisers  represent.fitting=spaces.fitting
represent.generator=spaces.generator_space  represent.pixel=spaces.pixel
represent.synthesis=models.generator  represent.wavelets=models.wavelets
tune=audit.tune  tune.charts=audit.tune.charts  tune.choose=audit.tune.recommend  tune.measure=audit.tune.measure
tune.page=audit.tune.page  tune.run=audit.tune.run  tune.tuning=audit.tune.result
utility=audit.utility  utility.classify=audit.utility.classify  utility.consistency=audit.utility.consistency
utility.detection=audit.utility.detection  utility.expression=audit.utility.expression
utility.fairness=audit.utility.fairness  utility.fidelity=audit.utility.fidelity
utility.figures=audit.utility.figures  utility.look=audit.utility.columns  utility.measures=audit.utility.measures
utility.proportions=audit.utility.proportions  utility.slices=audit.utility.slices
utility.video=audit.utility.video
"""
MOVES = {f"ksame.{a}": f"ksame.{b}" for a, b in (pair.split("=") for pair in _MOVES.split())}
STAYS = {f"ksame.{n}" for n in (
    "__main__ attack cli partition replace partition.hierarchical partition.kmeans partition.kmember "
    "partition.ksame partition.maxdist partition.mdav partition.random partition.select replace.centroid "
    "replace.furthest replace.kdiff replace.mix replace.shift faces masking portraits report").split()} | {"ksame"}
# package files of rooms that are gone, and what strings that name them mean now
DROP = {"ksame.faces": "ksame.models", "ksame.masking": "ksame.render.overlay",
        "ksame.portraits": "ksame.methods.anonfaces", "ksame.report": "ksame.audit.report"}
AS_MODULE: set[str] = set()
FACADES = {f"ksame.{a}": f"ksame.{b}" for a, b in {
    "media": "io", "represent": "spaces", "partition": "partition", "replace": "replace", "release": "release",
    "attack": "attack", "obscure": "methods.obscure", "pool": "methods.shift.pool",
    "experiments": "lab.experiments", "tune": "audit.tune", "utility": "audit.utility", "cli": "cli",
}.items()}

DATA = {
    **{f"ksame/models/{n}": f"ksame/models/data/{n}" for n in
       ("appearance.npz", "generator.npz", "people.npz", "pool.npz", "portraits.npz", "README.md")},
    "ksame/models/unasked.npz": "ksame/models/data/artifacts.npz",
    "ksame/report/page.html": "ksame/audit/report/page.html",
    "ksame/tune/page.html": "ksame/audit/tune/page.html",
}

# ---------------------------------------------------------------- splits


def _p(doc: str, symbols: str) -> dict:
    return {"doc": doc, "symbols": symbols.split()}


SPLITS = {
    "ksame.core": {
        "main": "ksame.core.guarantee",
        "doc": "Guarantees: a claim that travels with the data, prints itself, verifies itself, and can only be "
        "lowered.",
        "parts": {
            "ksame.core.arrays": _p("Types of arrays and of callbacks that everything shares.",
                                    "FloatArray IntArray RandomState _frozen"),
            "ksame.core.errors": _p(
                "Errors, with the exit code of the command line.\n\n::\n\n"
                "    KSameError                 1   anything that went wrong here\n"
                "    |-- UsageError             2   an option or argument makes no sense\n"
                "    |-- GuaranteeError         3\n"
                "    |   |-- CannotGuarantee        k cannot be met by these people\n"
                "    |   `-- GuaranteeViolated      a claim was checked and is not true\n"
                "    |-- InputError             4   a photo cannot be read or has no face\n"
                "    |-- ResidualFace           5   a face is still untouched in what was written\n"
                "    `-- WeightsError           1   a model file is missing and cannot be fetched\n",
                "KSameError UsageError GuaranteeError CannotGuarantee GuaranteeViolated InputError ResidualFace "
                "WeightsError"),
            "ksame.core.partition_type": _p(
                "Partitions, and the one law that they keep.\n\n"
                "The one law (``check_law``): the published face is constant on each group, each group has at\n"
                "least k distinct subjects, no subject is in two groups.\n", "as_k check_law Partition"),
            "ksame.core.faces": _p("Face sets and the protocol of face spaces.", "FaceSet Space"),
        },
    },
    "ksame.gather": {
        "main": "ksame.analysis.photos",
        "copy": ["T"],
        "parts": {
            "ksame.core.parallel": _p("", "side_by_side"),
            "ksame.core.arrays": _p("", "Watch"),
            "ksame.io.sources": _p("Sources: photos by name, and a way to read the pixels of each.",
                                   "Picture Source sources_of pixels"),
        },
    },
    "ksame.release._private": {
        "main": "ksame.release.private",
        "parts": {"ksame.core.errors": _p("", "Failure Faceless")},
    },
    "ksame.faces.detect": {
        "main": "ksame.models.detectors",
        "parts": {"ksame.core.boxes": _p("Boxes of detected faces, as parallel arrays.", "Boxes")},
    },
    "ksame.media._video": {
        "main": "ksame.io.video",
        "parts": {"ksame.io.clip": _p(
            "What a video file says of itself, and one frame of it.", "RGB FULL Colour Sound Clip Frame")},
    },
    "ksame.render": {
        "main": "ksame.render.portrait",
        "copy": ["Picture"],
        "doc": "Draw the mean face of a group, and portraits of it.",
        "parts": {
            "ksame.render.blend": _p(
                "Set a new face into a photo: feathering, colour matching and Poisson blending [S 6.2].",
                "Box Composite scene around meet _shrunk _feather _picture _poisson "
                "COMPOSITES"),
            "ksame.render.cover": _p("Cover faces that cannot be replaced.",
                                     "CELLS cover cover_on _ellipse _run_in _nearness covered_by"),
        },
    },
    "ksame.pipeline": {
        "main": "ksame.pipeline.photos",
        "parts": {"ksame.methods.ksame": _p(
            "The k-Same methods: group the codes, replace each group, and plan who gets which face.",
            "Method METHODS _plan _far _shifted _joined"),
            "ksame.pipeline.outputs": _p("What is published: portraits, or scenes with the new faces in them.",
                                         "Published _portraits _scenes"),
        },
    },
    "ksame.cli._release": {
        "main": "ksame.cli.release_commands",
        "parts": {"ksame.cli.model_commands": _p(
            "The commands for model files, trained models and identity pools.",
            "models model_app pool_app _models list_models fetch add train_model _learn_map _pool build_pool")},
    },
    "ksame.portraits.group": {
        "main": "ksame.methods.anonfaces.group",
        "parts": {"ksame.methods.anonfaces.grouping": _p(
            "By which codes people are grouped, and which people are kept apart [A 3.3.2].",
            "TONES _LIGHT _of_each_person _embedded _apart _nested _gender _tones")},
    },
    "ksame.report.words": {
        "main": "ksame.audit.report.wording",
        "parts": {"ksame.audit.report.standards": _p(
            "What the evidence says in the terms of WP216 and ISO/IEC 20889.", "Finding wp216 iso20889")},
    },
    "ksame.experiments.newton": {
        "main": "ksame.lab.experiments.newton",
        "parts": {"ksame.lab.experiments.newton_setup": _p(
            "Everybody twice, seen through one window: what the experiments of Newton et al. share.",
            "SEED ACROSS SAME Lab")},
    },
    "ksame.videos": {
        "main": "ksame.pipeline.videos",
        "parts": {"ksame.pipeline.video_render": _p(
            "Render a video frame by frame when its place in the release is known.",
            "AHEAD LATER BLOCK THREADS NOBODY Coded Followed Disguised _told _one_thread_each")},
    },
    "ksame.masking.choose": {
        "main": "ksame.methods.shift.choose",
        "parts": {"ksame.methods.shift.likeness": _p(
            "Apparent gender, age and skin of people and pool faces, and in which order faces are tried.",
            "GENDER LEVELS UNLIKE UNSURE _apparent _male _guessed _with_looks _turns")},
    },
    "ksame.masking.mask": {
        "main": "ksame.render.overlay.face_overlay",
        "parts": {"ksame.render.overlay.sampling": _p(
            "Sample, scale and soften images of new faces.", "EDGE FORM _far spread_over _seen _smaller _soft")},
        "copy": ["Picture"],
    },
    "ksame.pool.build": {
        "main": "ksame.methods.shift.pool.build",
        "parts": {"ksame.methods.shift.pool.identity_pool": _p(
            "The identity pool: synthetic identities, each with a de-identified counterpart [S 7.3, 8.3.4].",
            "Pool _SEEN _PICTURED _COLUMNS")},
    },
    "ksame.faces.sight": {
        "main": "ksame.analysis.tracking.scan",
        "parts": {
            "ksame.analysis.tracking.observations": _p(
                "What was observed of faces in a video, as parallel arrays.", "Embed Picture Sightings"),
            "ksame.analysis.tracking.frame_search": _p(
                "Search the frames of a video for faces, a few frames ahead.",
                "SMALL EVERY CHANGE SURE EARLY _Seen _searched _reduced _change _judged _search _thorough"),
        },
    },
    "ksame.portraits.surrogate": {
        "main": "ksame.methods.anonfaces.portrait_search",
        "parts": {
            "ksame.methods.anonfaces.portraits": _p(
                "Draw one portrait for each group of people that no verifier takes for one of them [A 3.4].",
                "portraits _made smiles"),
            "ksame.methods.anonfaces.candidate": _p(
                "Candidates for portraits, the portraits that were chosen, and their affinity to groups.",
                "Kin Portraits _Take"),
        },
    },
}

# ---------------------------------------------------------------- symbols: module: old=new ...

_RENAMES = """
adhoc: obscured=obscure_photos nobody=draw_synthetic_faces
ahead: ahead=prefetch room=prefetch_count by_two=map_pairs later=submit WAITING=PREFETCH_BYTES _HANDS=_POOL
apart: LOOKS=ATTRIBUTE_WEIGHTS PREDICTED=PREDICTED_LABELS Looks=PredictedAttributes looks=predict_attributes
apart: chosen=select_label likely=default_strata _seen=_predict _of_each_person=_per_person
attack._given: Faces=FacesInput given=as_codes_or_images pictures=as_images _picture=_as_image made=apply_method
attack._given: people=match_subjects several=check_several_people one_each=check_one_per_face promised=resolve_bound
attack.attacks: _studied=_estimate_degradation _places=_face_meshes _compared=_comparable_codes _seen=_embed_sides
attack.attacks: _flat=_as_rows chosen=resolve_recogniser Options=AttackOptions
attack.background: Beyond=BackgroundRecogniser _MIDDLE=_FACE_CENTRE _PIXEL=_THESIS_PIXEL _FACE=_FACE_ELLIPSE _LIKE=_MATCHERS _hole=_face_region
attack.classic: _INNER=_INNER_FACE_MATRIX _ENOUGH=_TRAINING_FACES_MAX _AROUND=_NEIGHBOURS _BYTES=_BYTE_VALUES _CHANGES=_BIT_CHANGES _CELL=_CELL_PX _WINDOW=_LPQ_WINDOW_PX _waves=_lpq_filters _by_blocks=_blockwise_distance _part=_training_subset
attack.groups: among=top_guesses _releases=_as_releases _hiding=_anonymity_sets
attack.pixels: Picture=UInt8Image _INNER=_INNER_FACE _CORE=_INNER_FACE_QUARTER _ALIKE=_RUN_TOLERANCE_GREY_LEVELS _RUNS=_RUN_LENGTHS_PX _WINDOW=_RUN_WINDOW_RATIO _SHARE=_MIN_RUN_SHARE _WHOLE=_WHOLE_BLOCK_TOLERANCE _SOFT=_MIN_BLUR_EYE_DISTANCES _SOME=_SAMPLE_FACES_MAX
attack.pixels: estimate=estimate_degradation samples=sample_faces imitated=imitate_degradation apply=apply_degradation enhanced=enhancing_recogniser _registered=_register_faces _within=_clip_degradation _block=_estimate_block_size _sigma=_estimate_blur_sigma _runs=_edge_distances _half=_half_size _quarter=_quarter_size _mixing=_degradation_matrix _softened=_soften_blocks
attack.recognise: deep=deep_recogniser choose=choose_recognisers _attacker=_as_recogniser _finite=_finite_codes _ready=_fetch_recogniser
attack.see: Seen=FaceEmbeddings see=embed_faces Also=FeatureCallback _BATCH=_BATCH_IMAGES _View=_ImageFaces _look=_embed_batch _find=_find_faces _not_found=_undetected _inner=_inner_faces _unlike=_distinct_images _join=_concatenate
attack.score: RANKS=MAX_RANK _found=_has_face _BLOCK=_PROBE_BLOCK
cli._lab: _code=_exit_code _page_for=_report_path _beside=_check_outside_release _tell=_print_report _show=_print_table _numbers=_parse_numbers _writable=_check_writable
cli._release: _method_for=_resolve_method _check_apart=_check_output_apart
cli._said: tell=print_summary tell_failures=print_failures tell_untouched=print_residual_faces _runs=_frame_ranges _tell_videos=_print_videos _tell_people=_print_people
cli._shell: _complain=_print_error
core: _frozen=frozen_copy _SCOPE=_SCOPE_SENTENCES
demo: sheet=contact_sheet
drawing: NewFaces=Surrogates new_faces=draw_surrogates _draw=_draw_surrogates _changed=_apply_code_changes _expressions=_expression_deltas _mouth=_mouth_openness _unfit=_photo_penalty _one_each=_best_photo_each
estimator: _FLOATS=_FLOAT_TYPES
experiments.anonfaces: DRAWN=PORTRAIT_KS BEFORE=RANK1_BEFORE _by_styles=_style_rows _left_out=_missing_note _say_losses=_describe_losses _draw_losses=_plot_losses _spans=_plot_spans _bars=_plot_bars _lines=_plot_lines
experiments.anonfaces_drawn: Painter=StyleReader painter=style_reader PLAIN=PLAIN_MEANS released=released_embeddings seen_in=embed_portraits assessed=risk_assessment Tried=TrialResult _modelled=_appearance_means _Looked=_PortraitInputs _generated=_portrait_trials _attacked=_attack_rates _say=_describe
experiments.anonfaces_view: View=NeutralFaces view_of=neutral_faces fitting=usable_ks drawn=group_faces adjusted=risk_adjusted_weights compared=compare_faces found_by=identification_rate labels_of=labels_or_predictions
experiments.base: Outcome=ExperimentResult Data=ExperimentData codes_of=recogniser_codes
experiments.face_images: Pictures=UInt8Images FACE=FRAME_FACE_WIDTH_PX QUICK=NETWORKS_BY_SPEED named=cmc_percent quietly=single_threaded listed=join_names
experiments.gross: _ways=_methods_and_levels _says_6=_describe_6 _says_5=_describe_5 _says_8=_describe_8 _most=_largest_k _held=_describe_bound _coarse=_pixelate_face _same=_imitate _finished=_finish_axes COARSE=BLOCK_SIZES_PX STATED=PAPER_RATES _expressions_apart=_deidentify_by_expression
experiments.gross_lab: Lab=GrossSetup Draw=RandomSplit Level=DeidentifiedFaces draws_of=random_splits named_by_pixels=eigenface_cmc named_by_networks=network_rank1 known_to=gallery_codes Make=MakeCallback told_apart=classification_accuracy classified=cross_validated_accuracy ACROSS=FACE_WIDTH_PX
experiments.newton: Lab=NewtonSetup ACROSS=FACE_WIDTH_PX SAME=SAME_PHOTO OTHER=OTHER_PHOTO STATED=PAPER_RATES _says_1=_describe_1 _says_15=_describe_15 _says_18=_describe_18 _dots=_plot_dots Eigen=EigenBasis Adhoc=AdHocRow
experiments.sun: MANY=DIVERSITY_RUNS BELOW=JUST_BELOW_BOUND ASTRAY=WRONG_MAP_COLUMN _carried=_expression_figures _ks=_usable_ks _like=_correlation
experiments.sun_photos: Picture=UInt8Image Keep=KeptRegion View=CropView PEOPLE=SEARCHED_PEOPLE FALLS=FALLS_WITH_STRENGTH KEPT=REGION_NAMES _Seen=_PhotoFace _sees=_detects _replaced=_replace_face _shifted=_kdiff_faces _surroundings=_background_experiment _setting=_background_setup _measured=_measure_rates ALONE=BACKGROUND_VIEWS SCALE=THESIS_SCALE CENTRE=FACE_CENTRE
faces.attributes: UNSURE=UNSURE attributes=predict_face_attributes male=predict_gender_score age=predict_age _EDGES=_AGE_BAND_EDGES _CHROMA=_GREY_CHROMA_MAX _SHADOW=_SHADOW_L_DIFFERENCE _GENDER_EVEN=_GENDER_EVEN_LOGIT _SMILE_EVEN=_SMILE_EVEN_LOGIT _WIDTH=_MOUTH_WIDTH_NEUTRAL
faces.blendshapes: blendshapes=predict_blendshapes _READ=_LANDMARK_ROWS _FEATURES=_LANDMARK_GROUPS
faces.detect: COARSE=COARSE_SIDE_PX OVERLAY=TILE_OVERLAP_PX OVERLAP=NMS_IOU second=detect_second resized=resize_image passes=two_pass_detect in_parts=detect_in_tiles turned_back=rotate_boxes_back explained=is_explained _padded=_pad_to_stride
faces.follow: PRESENT=MIN_PRESENCE DRAWN=MIN_DRAWN_PRESENCE MIN_EYES=MIN_DRAWN_EYE_DISTANCE_PX FEW=SMALL_EYE_DISTANCE_PX SURELY=SMALL_FACE_MIN_SCORE STEP=MESH_STEPS_PER_SIDE COARSE=SKIN_VIEW_REDUCTION OTHER=OCCLUSION_THRESHOLDS SPOTS=OCCLUDED_SPOTS_MAX FRONTAL=FRONTAL_TURN_MAX OUTSIDE=OUTSIDE_SHARE_MAX ACROSS=OUTSIDE_PRESENCE_MAX APART=CODE_INTERVAL_FRAMES
faces.follow: Chain=Tracklet follow=propagate_mesh in_the_open=occlusion_presence by_five=fit_by_five_points onto=fit_mesh_to_box again=find_mesh_in_box flow=estimate_motion within_reach=is_within_reach near=detect_near same_face=is_same_face pose=eye_distance_and_turn _pose=_five_point_pose pack=pack_meshes unpack=unpack_meshes box_of=mesh_box union=union_box
faces.join: GAP=MAX_GAP_FRAMES LEAD=MARGIN_FRAMES trimmed=trim_tracklet joined=link_tracklets _over_cut=_crosses_cut _agree=_codes_agree _meets=_positions_agree code_of=mean_observation_code
faces.landmarks: SIZE=MESH_INPUT_PX MARGIN=VIEW_MARGIN UPRIGHT=UPRIGHT_ROLL_DEGREES CLOSER=LANDMARKER_INPUT_PX VIEWS=LANDMARKER_VIEWS closer=refine_landmarks get_closer=preload_landmarker look=predict_mesh upright=refine_upright square=enclosing_square roll_of=eye_line_roll landmarks=predict_meshes
faces.left: LOOK=SEARCH_SIDE_PX SURE=SURE_SCORE LEAST=BOX_TOLERANCE_PX CLOSE=CONFIRM_VIEW_PX left_over=residual_faces _due=_search_plan _witnessed=_confirming_boxes grown=grow_boxes
faces.places: between=interpolate regions=track_boxes speed=box_speed hull=union_boxes
faces.shelf: Shelf=MeshStore Shelved=StoredMeshes IN_MEMORY=IN_MEMORY_BYTES CHUNK=CHUNK_FRAMES in_chunks=iterate_chunks
faces.sight: Embed=EmbedCallback SMALL=SEARCH_SIDE_PX EVERY=QUICK_SEARCH_INTERVAL SWEEP=THOROUGH_SEARCH_INTERVAL CHANGE=SCENE_CHANGE_GREY_LEVELS SURE=SURE_UPRIGHT_SCORE LIKELY=MIN_NEW_FACE_SCORE MEMORY=LOOK_BACK_FRAMES PATIENCE=LOST_FRAMES_MAX EARLY=SEARCH_AHEAD_FRAMES CODES=CODES_PER_TRACKLET Picture=FrameLike Sightings=Observations watch=scan_video
faces.sight: _Seen=_SearchedFrame _searched=_search_frames _reduced=_reduce_frames _change=_thumbnail_change _judged=_decide_cut _search=_search_frame _thorough=_search_thoroughly _Watcher=_VideoScanner
faces.steady: REACHES=SMOOTHING_REACHES_FRAMES REACH=MAX_REACH_FRAMES NEAR=NEIGHBOUR_DISTANCE smooth=smooth_meshes _real=_as_real _calm=_smooth_points _noise=_estimate_noise
faces.subjects: auto=link_embeddings extend=extend_subjects about=read_person_labels Row=SubjectRow table=subject_table _links=_near_pairs _some=_shorten_names _named=_subject_names
faces.track: BRIDGE=MAX_INTERPOLATED_FRAMES SHORTEST=MIN_DRAWN_FRAMES TOP=TOP_POINT CHIN=CHIN_POINT CLEAR=MIN_CODE_WIDTH_PX UNUSUAL=SIZE_JUMP_LOG_MAX Take=ReadMeshesCallback tracks=build_tracks found_again=update_corrected_track _good=_drawable _bridge=_fill_gaps people=identify_tracks _named_alike=_same_name_pairs _together=_appear_together _sure=_observed_frames kept=find_kept_tracks _widest=_max_width marked=annotate_tracks _margins=_track_limits
faces.tracks_json: ABOUT=FILE_COMMENT to_json=tracks_to_json from_json=tracks_from_json find_again=refind_meshes _in_box=_find_in_box _whole=_is_integer _number=_is_number
gather: Watch=ProgressCallback MIN_EYES=MIN_EYE_DISTANCE_PX MAX_TURN=MAX_HEAD_TURN Picture=ImageInput Found=PhotoFaces Gathered=AnalysedPhotos gather=analyse_photos side_by_side=parallel_map blaming=explain_failures _join=_concatenate _scale=_choose_scale _stacked=_stack_images _look=_analyse_photo usable=select_usable _nothing=_no_faces pixels=read_pixels sources_of=find_sources _stamp=_file_stamp
geometry: Frame=CanonicalFrame GROUND=BACKGROUND_GREY FACE=PORTRAIT_FACE_XYXY lips_apart=separate_lips nearest=nearest_covered _within=_visible_box _fill_in=_interpolate_displacements STILL=STABLE_POINTS SKIN=SKIN_POINTS
journal: Journal=Checkpoint COLUMNS=BOX_COLUMNS seed_of=resolve_seed _link=_link_or_copy
masking.brows: ASKED=SAMPLED_VIEWS LESS=BROW_MOVE_SHARE READ=BLENDSHAPE_TOLERANCE FAR=MAX_BROW_MOVE _BOTH=_BROW_POINTS settled=adjust_brows _raised=_raise_brows _lower=_brow_height_error _less=_brow_blendshape_error _heights=_brow_heights
masking.choose: AMONG=NEAREST_POOL_FACES ENOUGH=RELAXED_MARGIN_SHARE AFAR=SMALL_FACE_EXTRA_MARGIN NEARER=BROW_MARGIN_LOSS NAMED=MIN_TRIALS UNLIKE=DISSIMILAR_POOL_SHARES PATIENCE=TRIALS_PER_SHARE GENDER=GENDER_WEIGHT AGE=AGE_WEIGHT LIGHT=SKIN_WEIGHT LEVELS=SKIN_GREY_LEVELS SPARE=VIEWS_PER_EXCEPTION ASKED=GENDER_CHECK_VIEWS UNSURE=UNSURE_GENDER_RANGE
masking.choose: masks=choose_identities _afar=_small_face_level _apparent=apparent_attributes _male=gender_probability _guessed=_predict_views _with_looks=with_attribute_codes _turns=trial_order _Given=_ChoiceContext _choose=_search_candidates _enough=_relaxed_margin _taken=_assign_distinct _distinct=_is_distinct _order=_verification_order _tried=_verify_candidate
masking.features: Picture=FloatImage EYES=EYE_POINTS CORNERS=EYE_CORNERS MOUTH=MOUTH_POINTS UPPER=UPPER_LIP LOWER=LOWER_LIP LIDS=LID_GAIN RAISED=BROW_RAISE_GAIN KNIT=BROW_KNIT_GAIN NEAR=FEATURE_REACH_PX _OPEN=_OPEN_EYE_RATIO _SHUT=_SHUT_EYE_RATIO Lids=Eyelid in_form=rigid_feature_move livelier=amplify_expression with_eyes=split_eye_triangles shut=eye_closure lids=make_eyelids _lids=_make_eyelid disc=disc_kernel _around=_bounding_patch _fixed=_fixed_point
masking.hiding: ALIKE=SAME_PERSON_MARGIN STRANGERS=STRANGER_DISTANCES USUAL=DEFAULT_STRANGER_RATIO Known=Embeddings hides=privacy_margin far_from=margin_to_original apart=distance_ratio codes_of=embed_views seen_by=embed_view
masking.look: LARGE=REFINE_MIN_EYE_DISTANCE_PX FINE=SMALL_FACE_EYE_DISTANCE_PX AROUND=SKIN_SPOT_WIDTH_SHARE UNDER=FOREHEAD_SHADE_RATIO CHEEKS=CHEEK_ROWS _PARTS=_SKIN_PARTS _BELOW=_BELOW_CHEEK_POINTS ABOVE=GLASSES_RATIO_MIN GLASS=GLASSES_LIMITS _ROWS=_MOUTH_ROWS View=FaceView gamma_of=appearance_code code_of=encode_frame landmarks_of=refined_landmarks mouth_of=mouth_colours sharpness_of=frame_sharpness skin_of=skin_colours in_glasses=wears_glasses _below_of=_below_cheek_colours colours_of=sample_skin_colours _sides=_side_colours overall=mean_skin_colour sharpness=measure_sharpness _at=_sample_colours _between=_sample_mouth calm=smooth_codes in_place=reanchor
masking.looks: LARGEST=MAX_FACE_SIDE_PX looks=sample_views spread=evenly_spaced close=crop_face
masking.mask: Picture=FloatImage MOST=MAX_CODE_DEVIATIONS FORM=SHAPE_SHARE EDGE=LIP_EDGE_PX FIELD=LIGHT_GRID WIDE=LIGHT_SIGMA_PX BRIGHTER=MAX_CHEEK_LIGHT_RATIO PATCHY=MAX_LOCAL_LIGHT_RATIO TINTED=MAX_TINT_RATIO SMALL=UPSCALED_FACE_PX TIMES=MAX_UPSCALE Mask=FaceOverlay _far=shape_weights _seen=sample_colours _smaller=reduce_image _soft=soft_alpha spread_over=interpolate_mesh_values
masking.mouth: Picture=FloatImage DIM=TOOTH_LIGHT_MIN LIT=TOOTH_LIGHT_FULL RED=TOOTH_RED_MAX PALE=TOOTH_RED_FULL GREY=GREY_FILM_RED FLESH=LIP_HUE SHADE=TONGUE_LIGHT_MAX DEEP=MOUTH_DEPTH_LIGHT TALL=TOOTH_HEIGHT_MAX EDGE=TOOTH_EDGE_SOFTNESS SOFT=LIP_EDGE_SOFTNESS ENDS=TOOTH_BOUNDARIES THIN=TOOTH_GAP ROUND=TOOTH_ROUNDING FRONT=TOOTH_FADE_RANGE BETWEEN=TOOTH_GAP_SHADE teeth=tooth_scores paint=paint_mouth _between=_mouth_image
masking.pictures: Picture=FloatImage SOFTER=BLUR_SIGMAS_PX SOFTEST=MAX_BLUR_WIDTH_SHARE LIGHTER=MAX_SKIN_L_CHANGE NEAR=SKIN_L_TOLERANCE LEVELS=PYRAMID_LEVELS RIM=FACE_RIM_SHARE WIDER=PORTRAIT_RIM_SHARE scaled=rescale_image spread=extend_skin recoloured=match_skin softened=match_sharpness _blurred=_blur_image pyramid=image_pyramid
media._boxes: is_cut=is_truncated box=read_box number=read_vint read=read_bytes
media._find: HEIC=HEIC_SUFFIXES _PLAIN=_PHOTO_SUFFIXES SUFFIXES=PHOTO_SUFFIXES VIDEOS=VIDEO_SUFFIXES Photo=FoundFile find=find_photos skipped=skipped_files _named=_find_named is_ours=is_release_folder
media._read: MOST_PIXELS=MAX_PIXELS read=read_photo preview=read_preview _Quiet=_SilencePillow _quiet=_silence_pillow _TURN=_ORIENTATIONS
media._sound: LOST=DAMAGED_NOTE sound_hashes=audio_hashes kept=copy_audio disguised=disguise_audio _copy=_add_stream_copy _when=_packet_time _copied=_copy_packets _voice=_shift_pitch _heard=_decode_audio _then_silence=_append_silence _ready=_filtered_frames _cut=_truncate_frame
media._video: OPENING=OPEN_OPTIONS PICTURES=STILL_BRANDS BROADCAST=BROADCAST_FORMATS TO_RGB=RGB_INTERPOLATION FULL=FULL_RANGE PLAIN=PLANAR_8BIT_FORMATS LATE=END_TOLERANCE_SECONDS Colour=ColourSpace Sound=AudioStream Frame=ClipFrame frames=read_frames probe=probe_video opened=open_media is_cover=is_cover_art _plain=_is_writable_as_is _merged=_merge_planes planes=frame_planes pixels_of=pixel_format_of _turn=_orientation
media._video_metadata: _HOLD=_CONTAINER_BOXES _NEED=_REQUIRED_BOXES _TIMES=_TIME_BOXES _MASTER=_MASTER_ELEMENTS _ASIDE=_METADATA_ELEMENTS _between=_encoder_notes
media._video_pick: picked=read_frames_at _sought=_seek_frames _clock=_frame_times
media._video_write: QUALITY=DEFAULT_QUALITY TO_YUV=YUV_INTERPOLATION AHEAD=LOOKAHEAD_OPTIONS Written=WrittenVideo _weave=_interleave _pictures=_encoder_frames _picture=_encoder_frame _renewed=_replace_boxes _opens=_encoder_accepts
media._write: SAME_TIME=FILE_TIMESTAMP publish=publish_folder _sibling=sibling_path _clear=_remove_siblings _seal=_set_times_and_sync _sync=sync_to_disk
faces.search: View=SearchView
naming: Linkage=LinkingRule Trial=LinkingTrial TOGETHER=THREE_RECOGNISERS ALONE=ONE_RECOGNISER
scratch: folder=scratch_folder sweep=remove_ownerless
text: LONGEST_NAME=MAX_NAME_BYTES _UNSEEN=_INVISIBLE_CATEGORIES visible=make_visible short=shorten
tone: LONGEST=MEASURED_SIDE_PX CELL=CELL_PX GREY_CHROMA=GREY_CHROMA_MAX TONE_SPREAD=TONE_SPREAD_MAX SMOOTHING=CURVE_SIGMA_GREY_LEVELS Image=UInt8Image in_grey=to_grey _reduced=_reduce_image
naming: SAME_PHOTO=SAME_PHOTO_GREY_LEVELS Given=SubjectHints Told=SubjectSource read_names=read_subject_hints name_faces=identify_faces _ASSUMED=_ASSUMPTIONS
networks: _idle=_idle_requests _asked=_call_counts _usual=_specialised_shapes LARGE=LARGE_NETWORK_BYTES SEVERAL=MMAP_MIN_NUMBERS OFTEN=SPECIALISE_AFTER_CALLS SIZES=SPECIALISED_SHAPES_MAX READERS=NETWORK_READERS _first=_core_lock _opening=_compile_locks _often=_shape_to_compile get_ready=preload let_go=unload inputs=input_shapes _borrowed=_borrow_request _forgotten=_discard_pages _filed=mmap_weights _packed=_int8_weights _glibc=_call_glibc
obscure: GUARANTEE=NO_GUARANTEE FAR=FAR_PX ROOM=CROP_MARGIN Method=ObscureMethod
obscure._face: Picture=UInt8Image Mask=BoolMask EYES=EYE_DISTANCE Face=FaceRegion grown=grow_mesh box=bounding_slices seen_from=crop_matrix fill=fill_hull
obscure._shapes: KEYS=KEY_POINTS PARTS=PART_ELLIPSES SOFT=PART_EDGE_PX _lay=_add_patch
obscure._values: WIDTH=FACE_WIDTH SPLIT=BINARY_LEVEL _ink=_to_grey
openset: VIEWS=VIEWS_PER_PERSON SHIFTED=POOL_ASSUMPTION FREE=PARAMETRIC_POOL_HINT PIXELS=PIXEL_TEXTURE_ASSUMPTION AROUND=SURROUNDINGS_ASSUMPTION APART=SEPARATE_IDENTITIES_ASSUMPTION pool_of=load_pool limits=pool_notes judges=available_verifiers assumed=texture_assumption closer=available_landmarkers shifted=shift_photos beside=merge_releases _left=_count_residual _new_faces=_choose_overlays _painter=_overlay_painter
partition: Method=PartitionMethod
partition._left: Left=Remaining
partition._people: People=SubjectCodes _HUGE=_MAX_MAGNITUDE
partition.judge: Judgement=PartitionQuality judge=partition_quality _ENTRIES=_DISTANCES_AT_ONCE
partition.select: Merge=StratumMerge parts=make_strata _one_label_each=_label_per_subject _merge=_merge_small
pipeline: _portraits=publish_portraits _scenes=publish_scenes Method=KSameMethod ONE_RELEASE=ONE_RELEASE_ASSUMPTION KEPT=NAMES_KEPT_ASSUMPTION EXPRESSED=EXPRESSION_KEPT_ASSUMPTION BLENDED=SCENE_ASSUMPTION DRAWN=DRAWN_ASSUMPTION People=IdentifiedPhotos people_of=identify_photos release_of=make_release Draft=SurrogateDraft _modelled=_draft_from_codes _generated=_draft_portraits _recipe=_check_options _appearance=_load_appearance _plan=plan_replacement _far=_plan_furthest _shifted=_plan_kdiff _joined=_merge_plans Published=PublishedFiles _assume=_add_assumptions
pool.build: SMILING=SMILE_CONDITION STANDING=MIN_DISCRIMINATOR_RANK PRESENCE=MIN_PRESENCE OFF=MAX_LANDMARK_ERROR APART=MIN_DISTANCE_RATIO BATCH=BATCH_SAMPLES Candidates=PoolCandidates Refuse=RefuseCallback build=make_pool grown=grow_pool candidates=sample_candidates deidentified=deidentify_codes _far=_accept_deidentified frontal=is_frontal look=check_drawn_faces _seen=_embed_code off=landmark_error apart=distinct_rows _said=_comparison_note _SEEN=_EMBEDDING_PREFIX _PICTURED=_IMAGE_ARRAYS _COLUMNS=_CODE_ARRAYS
pool.gan: KEEP=AVERAGE_DECAY LEAK=LEAKY_SLOPE RATES=LEARNING_RATES CLIP=WEIGHT_CLIP Climber=AdamOptimiser Trained=TrainedGan TwoSamples=TwoSampleTest
pool.generator: SCALE=CODE_SCALE Generator=CodeGenerator arrays=read_arrays digest=array_digest conditions=sample_conditions
pool.learn: LEAST=MIN_FACES look_of=predict_labels learn=train_code_generator Collapse=CollapseTest collapse=check_collapse
portraits.glance: _SKIN=_SKIN_PATCHES _LIGHT=_LIGHT_FIT _GROUND=_BACKGROUND_FIT _PLAIN=_PLAIN_BACKGROUND_MAX _OFF=_SKIN_L_ERROR_MAX _STEPS=_MAX_SKIN_STEPS _HUE=_SKIN_HUE_MAX_DEGREES _MANY=_PREVIEWED_STYLES_MAX _WEIGHT=_ARTIFACT_WEIGHT Glance=Preview told=measure_preview chosen=choose_style _set=_correct_skin odd=artifact_score _most=_largest_background _glance=_preview_code _bad=_preview_penalty
portraits.group: PARTED=EXPRESSIONS_COUNTED_APART TONES=SKIN_TONES _BLOCK=_BATCH_FACES _LIGHT=_SKIN_WEIGHT _AGE=_AGE_WEIGHT Seen=FaceFeatures Made=GroupPortraits judges=available_verifiers made=make_group_portraits tools=load_generator looked=analyse_faces _of_each_person=per_person _embedded=grouping_codes _apart=stratified_codes _nested=_nested_strata _gender=_gender_labels _tones=_skin_tone_labels _bounded=_with_bound _kept=_homogeneity _descent=_descent_note _kinship=_affinity_rows _asked=_attribute_rows _codes=_portrait_embeddings
portraits.judge: _NEARLY=_NEAR_PAIR_SHARE _LEAST=_MIN_LIMIT_SHARE _alone=_embed_lock known=embed_registered recognised=matched_faces limit=distance_limit kinship=group_affinity
portraits.learn: LEAST=MIN_FACES RANK=MAP_RANK SPAN=EVEN_RANGES _TURN=_YAW_SIGMA_PX _PLAIN=_UNSTEERED_SHARE _STEERED=_STEERED_SHARE Learnt=LearntMap train=train_generator_map sample=sample_faces learn=learn_map _styles=_random_styles _evenly=_spread_attributes _drawn=_draw_and_measure _carried=_transfer_classifier
portraits.measure: _ENOUGH=_DETECTION_SIDE_PX _LEVEL=_MIN_TONE_DEGREES _EDGE=_MIN_PROBABILITY Drawn=DrawnPortraits look=measure_portraits largest=largest_faces Light=LightChange exposed=change_light seen_exposed=measure_changed_light attributes_of=portrait_attributes busy=background_busyness yellow=skin_yellowness _odds=_log_odds
portraits.people: JUDGES=VERIFIERS LICENCE=POOL_LICENCE _PSI=_TRUNCATION _AMONG=_STYLES_PER_TARGET _SPAN=_TARGET_RANGES _TURN=_MAX_YAW_PX _GROWN=_MIN_AGE_YEARS _BARE=_ACCESSORY_MAX _ALIKE=_SAME_PERSON_SHARE _QUALITY=_JPEG_QUALITY _PATIENCE=_PORTRAITS_PER_IDENTITY people=draw_synthetic_people _Person=_SyntheticPerson _pool=_make_pool _Casting=_IdentitySampler _plain=_is_usable _labels=_condition_labels _same=_same_identity_distance _apart=_is_distinct _stored=_encode_image _said=_comparison_note
portraits.styles: GAIN=MEAN_GAIN SPIRIT=RANDOM_STYLE_SHARE AMONG=CANDIDATE_STYLES OUT=DISTANCE_RANGES LIGHTER=SKIN_OFFSETS _LESS=_ACCESSORY_OFFSETS _VARIED=_SPREAD_ATTRIBUTES _SPIRITS=_MIN_RANDOM_STYLES _KIN=_AFFINITY_LIMITS Styles=StylePool
portraits.surrogate: _FLAWED=_FLAW_THRESHOLDS _ODD=_MESH_DEVIATION_MAX _DYED=_SKIN_CHANGE_MAX _CORRECTIONS=_CORRECTIONS_MAX _ENOUGH=_NO_CORRECTION_FACTOR _LOOSE=_TOLERANCE_FACTORS _FINE=_GOOD_PENALTY _UNASKED=_ARTIFACT_PENALTY _APART=_AFFINITY_MARGIN _STRANGE=_AFFINITY_LOSS_MAX _NEARER=_FOREIGN_AFFINITY_MAX _WORST=_FOREIGN_PENALTY _FAR=_FAR_ERROR_FACTOR _STEP=_CORRECTION_STEP _EXPOSED=_EXPOSURE_LIMITS _DARKER=_DARKENING_L_MAX _WARMER=_WARMING_B_MAX _TRIES=_EXTRA_TRIES _MORE=_EXTRA_AFFINITY_TRIES _HELPERS=_WORKERS_MAX _SHRUNK=_CODE_SCALES Kin=GroupAffinity Portraits=PortraitSet portraits=draw_portraits _made=_search_portraits smiles=draw_expression _Take=Candidate _Studio=PortraitSearch
portraits.texture: _GREY=_LUMA_WEIGHTS _WIDE=_LIGHT_SIGMA_PX _MOST=_MAX_LIGHT_GAIN _SHINE=_HIGHLIGHT_L _OTHER=_NON_SKIN_LIMITS _STRANDS=_HAIR_LIMITS _FRINGE=_FRINGE_SHARE_MAX _DIM=_MIN_SKIN_L _HUE=_SKIN_HUE_RANGE _VIVID=_MAX_SKIN_CHROMA _MARGIN=_RIM_PX _BROW=_GLABELLA_POINT _APART=_OPEN_MOUTH_RATIO _OPEN=_OPEN_EYE_RATIO worn=extract_skin_texture clean=is_clean_skin at_rest=is_neutral _low=_low_frequency_light _regions=_skin_region
portraits.turns: _AHEAD=_TRIES_UNDER_WAY _ABREAST=_PRIORITY_TRIES in_turn=retry_in_order _next=_next_group
portraits.unasked: KINDS=ARTIFACT_KINDS Unasked=ArtifactDetector
portraits.wishes: MALE=SURE_MALE_LOGIT SMILING=SURE_SMILE_LOGIT NEUTRAL=SURE_NEUTRAL_LOGIT _SEEN=_SEEN_LOGITS ASKED=REQUESTED_LOGITS PLAIN=PLAIN_BACKGROUND NEAR=ATTRIBUTE_TOLERANCES wishes_of=group_targets missed=attribute_error span=sufficient_range named=attribute_dict
release._make: Made=DeferredFile _filmed=_make_deferred _place=_output_path
release._private: PRIVATE=PRIVATE_FILES Row=MappingRow Untouched=ResidualRecord Making=MakingNotes private_parts=write_private_parts read_untouched=read_residual_faces
release._verify: REPORT=REPORT_FILE
render: FEATHER=FEATHER_EYE_DISTANCES ODD=OUTLIER_GREY_LEVELS LEAST=MIN_MEMBER_WEIGHT CELLS=COVER_GRID_CELLS Picture=FloatImage surrogate=draw_mean_face varied=apply_variation _usual=_typicality_weights _open=_open_mouth_weights fade=fade_mask smooth=smoothstep portrait=draw_portrait scene=blend_scene around=padded_box meet=deform_background _shrunk=_reduce_surrogate _feather=_blend_feather _picture=_blend_colour_matched _poisson=_blend_poisson cover=cover_faces cover_on=cover_in_place _run_in=_fill_from_surroundings _nearness=_cell_weights covered_by=cover_boxes
replace._codes: NEAR=SAME_CODE_TOLERANCE
replace._pairs: Pair=ClusterPair Gamma=UnassignedCodes led_home=maps_to_own _BLOCK=_DISTANCES_AT_ONCE
replace.centroid: _REAL=_REAL_FACE_NOTE
replace.furthest: _TRIES=_MAX_TRIES _NOT_ASTRAY=WRONG_MAP_FAILED
replace.kdiff: _TRIES=_MAX_TRIES _ball=_random_in_ball
replace.shift: TAKEN_BACK=POOL_SECRET_ASSUMPTION identities=assign_identities _still=_fixed_components
report.afresh: Made=RerunResult can=can_rerun unlike=rerun_differences afresh=rerun_method
report.charts: INK=INK_COLOUR SOFT=SOFT_COLOUR PALE=PALE_COLOUR WIDTH=CHART_WIDTH outstanding=highlighted_recognisers
report.clips: VIEWS=VIEWS_PER_PERSON NOT_TRIED=PARROT_NOT_TRIED_NOTE ALONE=ONE_PERSON_NOTE Asked=AuditRequest Crowd=VideoGallery _crowd=_build_gallery _watched=_compare_clip _followed=_scan_original _lost=_describe_losses beside=merge_reports _named=_identify_clips _views=_attacker_views
report.evidence: Pairs=FacePairs Views=EmbeddedPairs views_of=embed_pairs counted=check_counts stem=tree_stem private_of=find_private claim_of=read_claim pairs_of=pair_faces _told=_identify_people _in_turn=_faces_by_size places=face_places matched=match_faces with_originals=keep_with_originals _as_far_as_readable=_readable_certificate
report.examine: _pictures=_shown_images SHOWN=SHOWN_IMAGES HEIGHT=SHOWN_HEIGHT_PX _photos=_audit_photos _tried=_run_attacks _unseen=_faceless_notes _small=_thumbnail_png
report.footage: STRIP=FACES_PER_STRIP SIDE=STRIP_FACE_PX STRIPS=STRIPS_MAX DETECTED=DETECTION_FRAMES TRACED=TRACED_EXPRESSIONS Scene=ClipPair visible=visible_faces film=video_figures _shapes=_expression_rows Measured=MeasuredFaces table=utility_table detected=detection_rates strips=face_strips
report.page: _picture=_image_entry PICTURES=IMAGES_MAX CHARTS=CHARTS_MAX SENTENCES=SENTENCES_MAX _SHARES=_SHARE_UNITS _film=_video_section _worse=_fairness_section
report.record: STABLE=STABLE_COLUMNS IN_VIDEOS=VIDEO_SUFFIX MORE=EXTRA_COLUMNS Pair=ImagePair Film=VideoFigures record_of=audit_record _plain=_plain_value
report.trials: Look=EmbedFacesCallback Crowd=Gallery Trial=AttackInputs crowd_of=build_gallery _some=_check_gallery direct=direct_attacks around=background_attacks parrots=parrot_attacks undone=degradation_attacks reconstructed=reconstruction_attacks intersected=intersection_attacks
report.watching: TOGETHER=BATCH_PIXELS Moment=FramePair Watched=ComparedClip watched=compare_clips _moments=_frame_pairs _alike=_match_size _look=_compare_frames _bare=_is_published_unchanged _left=_has_residual all_of=concatenate_clips _same=_patch _joined=_concatenate _seen=_concatenate_embeddings
report.words: Status=HeadlineStatus of_100=per_hundred attack_says=describe_attack attacker=describe_attacker best=most_successful named=describe_rate strongest=describe_strongest headline=make_headline _over=_above_bound _unpromised=_headline_unpromised _said=_headline_stated_k _proved=_headline_proved _PROOF=_PROOF_SENTENCE _measured=_headline_measured _bounded=_bounded_attacks _count=_count_attacks _surely=_caution_sentence _undecided=_undecided_sentence
represent.appearance: TEXTURE=TEXTURE_SCALE on_frame=landmarks_on_frame _mean_picture=_mean_image _small=_texture_size _spread=_extend_texture
represent.descriptor: SIDE=CHIP_SIDE_PX
represent.embedding: Recogniser=EmbeddingNetwork _LOOSE=_LOOSE_FIVE _FIVE=_ALIGNED_FIVE finite=check_finite
represent.fitting: KEEP=TEXTURE_VARIANCE_SHARE MARGIN=MARGIN_PX EDGE=EDGE_PX REST=CONVERGED_STEP_PX MOST=MAX_SHAPE_DEVIATIONS ALIKE=CORRELATED_PIXELS Look=ShapeExplanation Method=FittingMethod
represent.generator: COLOUR_FROM=FIRST_COLOUR_ROW _COARSE=_BYTE_ARRAYS _SMALL=_THUMBNAIL_SIZE _MOST=_MAX_DEVIATIONS features=extract_features split=split_features
represent.pixel: FEATHER=FEATHER_PX
represent.synthesis: _BANDS=_LAST_BANDS_NODE _SAMPLES=_MEAN_STYLE_SAMPLES _MANY=_STYLE_BATCH _TIMES=_PREVIEW_HALVINGS _INNER=_INNER_NODE _WHEEL=_WHEEL_MEMBER Glimpse=PreviewImages Generator=ImageGenerator _sha=_files_digest _shown=_to_uint8 _inferred=_infer_images _inferred_all=_infer_all _reduced=_halve_image
represent.wavelets: quick=use_fast_wavelets doubled=inverse_haar coarse=skip_doublings is_noise=is_constant_noise _sorted=_reorder_channels _summed=_summands
scenes: Paint=PaintCallback WRITTEN=WRITABLE_SUFFIXES Scene=ScenePlan Scenes=RenderedScenes _Side=_ParallelItems painted=render_scenes file_names=published_names _kept=_kept_name
training: LEAST=MIN_FACES FAR=MODE_DEVIATIONS Training=TrainingResult train=train_appearance_model PAGE=PAGE_TEMPLATE
tune.charts: RED=RED_COLOUR INK=INK_COLOUR _picture=_svg_data_url
tune.choose: FREE=NEGLIGIBLE_LOSS Choice=Recommendation Cut=DendrogramCut safe=within_budget choose=recommend cuts=dendrogram_cuts
tune.measure: Known=OriginalFigures known=measure_originals Published=PublishedFaces published_of=published_faces measured=measure_release
tune.run: PICTURES=SHOWN_KS _SIDE=_MAX_SIDE_PX _Tried=_Trials _together=_one_group_note _small=_reduce_image
tune.tuning: Tuning=TuningResult _plain=_plain_value
utility.classify: MOST=MAX_FACES COMMONEST=COMMONEST_LABEL classified=classify_faces kept_together=connected_rows _small=_thumbnails
utility.detection: _seen=_detects_face
utility.expression: _ARCHES=_BROW_MIDDLES
utility.fairness: worse=find_disadvantaged _lost=_lost_value harm=face_harm chance=difference_p_value
utility.figures: found=has_face _told=_classifier_figures _some=_limit_faces _looks=_attribute_figures _built=_proportion_figures
utility.look: PICTURE=IMAGE_SIZE _INNER=_INNER_BOX _LOOKS=_ATTRIBUTE_WEIGHTS features=face_columns notes=missing_notes _pictures=_image_columns _looks=_attribute_columns
utility.measures: _TOLD=_CLASSIFIED_LABELS _SHARED=_GROUP_LABELS _guessed=_predict_labels
utility.slices: LEAST=MIN_PEOPLE _BY=_SLICE_COLUMNS known=clean_labels predicted=predict_person_labels
utility.video: STILL=STILL_GREY_LEVELS AROUND=STILL_WINDOW_PX REST=AT_REST_SHARE _MARKS=_MIN_MOTION_POINTS UNCHANGED=UNCHANGED_GREY_LEVELS ALIKE=UNCHANGED_CORRELATION _lighter=_light_ratio stilled=align_frames motion=estimate_rest_motion unchanged=is_unchanged expressions=expression_rows strength=expression_strength over_time=time_correlation
videos: AHEAD=SMOOTHING_REACH_FRAMES LATER=CODE_AHEAD_FRAMES BLOCK=TRACK_BLOCK_FRAMES THREADS=CODEC_THREADS AROUND=VIDEO_SURROUNDINGS_ASSUMPTION KEPT=KEPT_PEOPLE_ASSUMPTION NOBODY=NO_FACE_NOTE DISGUISED=PITCH_ASSUMPTION disguise=deidentify_video _one_thread_each=single_threaded _opened_beside=_preload_in_background Followed=ScannedVideo _followed=_scan_videos _follow=_scan_video _told_tracks=_tracks_text _told=frame_progress _recognised=_identify_people _codes=_photo_codes _new_faces=_choose_overlays _written_as=_output_name Disguised=RenderedVideo Coded=FrameCodes
weights: _watch=_show_progress _weigh=_folder_bytes
"""
RENAMES: dict[str, str] = {}
for _line in _RENAMES.strip().splitlines():
    _module, _, _pairs = _line.partition(": ")
    for _pair in _pairs.split():
        _old, _new = _pair.split("=")
        if _old != _new:
            RENAMES[f"ksame.{_module}:{_old}"] = _new

# ---------------------------------------------------------------- words: fields, methods, parameters, keywords

WORDS = {
    "watch": "progress",
    "journal": "checkpoint",
    "picture": "image",
    "pictures": "images",
    "papers": "attachments",
    "made_of": "members",
    "wish": "target",
    "wishes": "targets",
    "let_go": "unload",
    "recall": "load_boxes",
    "remember": "store_boxes",
    "shipped": "bundled",
    "unasked": "artifact",
    "afar": "small_face",
    "judges": "verifiers",
    "shelf": "store",
    "crowd": "gallery",
    "glance": "preview",
    "_glance": "_preview_network",
    "kin": "affinity",
    "calmed": "smoothed",
    "eyes_apart": "eye_distance",
    "most": "max_count",
    "among": "nearest_count",
    "tell": "progress",
    "also": "features",
}
# local variables, too; the first of several that is free
LOCALS = {
    "picture": ("image",),
    "pictures": ("images",),
    "ground": ("background",),
    "wish": ("target",),
    "wishes": ("targets",),
    "made_of": ("members",),
}
SKIP_PARAMS = {("tests/conftest.py", "write")}  # they would meet a local variable
VIDEO = ("src/ksame/faces/sight*", "src/ksame/faces/follow*", "src/ksame/faces/join*", "src/ksame/faces/track*",
         "src/ksame/faces/places*", "src/ksame/faces/shelf*", "src/ksame/media/_video*", "src/ksame/media/_sound*",
         "src/ksame/videos*", "src/ksame/report/footage*", "src/ksame/report/watching*", "src/ksame/report/clips*",
         "tests/films.py", "tests/unit/test_track.py", "tests/unit/test_video*", "tests/integration/test_video*")
# words that mean this in some files only
WORDS_IN: dict[str, dict[str, str]] = {
    "src/ksame/drawing*": {"moved": "expression_delta"},
    "src/ksame/pipeline*": {"moved": "expression_delta", "several": "allow_several", "looks": "attributes",
                            "told": "subject_source"},
    "src/ksame/tune/measure*": {"looks": "attributes"},
    "src/ksame/faces/blendshapes*": {"looks": "views"},
    "src/ksame/faces/landmarks*": {"looks": "views"},
    "src/ksame/faces/steady*": {"most": "limit"},
    "src/ksame/masking/*": {"looks": "views", "worn": "warp_to_mesh"},
    "src/ksame/masking/choose*": {"looks": "attribute_codes", "apart": "margin"},
    "src/ksame/videos*": {"worn": "warp_to_mesh"},
    "src/ksame/openset*": {"worn": "warp_to_mesh"},
    "tests/unit/test_masking.py": {"looks": "views", "worn": "warp_to_mesh"},
    "src/ksame/core*": {"several": "allow_several"},
    "src/ksame/portraits/group*": {"several": "allow_several"},
    "src/ksame/release/_verify*": {"several": "allow_several"},
    "src/ksame/report/evidence*": {"several": "allow_several"},
    "tests/unit/test_core.py": {"several": "allow_several"},
    "tests/property/test_generator_properties.py": {"several": "allow_several"},
    "src/ksame/pool/generator*": {"makes": "generator_net", "judges": "discriminator_net"},
    "tests/unit/test_pool*.py": {"makes": "generator_net", "judges": "discriminator_net"},
}


def words_of(label: str) -> dict[str, str]:
    words = dict(WORDS)
    for pattern, more in WORDS_IN.items():
        if fnmatch.fnmatch(label, pattern):
            words |= more
    return words


LOCALS_IN = {"src/ksame/report/examine*": {"gallery": ("gallery_count",)}}


def local_words(label: str) -> dict[str, tuple[str, ...]]:
    return _local_words(label) | {k: v for p, more in LOCALS_IN.items() if fnmatch.fnmatch(label, p) for k, v in more.items()}


def _local_words(label: str) -> dict[str, tuple[str, ...]]:
    if any(fnmatch.fnmatch(label, pattern) for pattern in VIDEO):
        return LOCALS | {"picture": ("frame", "image"), "pictures": ("frames", "images")}
    return LOCALS


# words that are also values of options, and stay in double backticks
VALUES = {"shipped", "picture"}
DROP_ALIAS: set[str] = {"paint_mouth"}
KEYWORD_THROUGH = {"functools", "dataclasses", "concurrent.futures", "types"}
TEST_MODULES = ("films", "drawn", "running", "samples", "generators", "oracles", "twice", "composites")

# ---------------------------------------------------------------- files


def _doc(text: str) -> str:
    return f'"""{text}"""\n'


PACKAGES = {
    "ksame.core": _doc("What everything speaks in: arrays, errors, faces, partitions, guarantees, geometry."),
    "ksame.models": _doc("Networks: weights, the inference runtime, detectors, landmarks, recognisers, generators."),
    "ksame.analysis": _doc("ANALYSE and IDENTIFY: from photos and videos to faces, subjects, strata and tracks."),
    "ksame.analysis.tracking": _doc("Faces through a video: scan, propagate, link, smooth, and the track file."),
    "ksame.methods": _doc("Methods: what each de-identification method groups, replaces and promises."),
    "ksame.methods.anonfaces": _doc("AnonFACES: one generated portrait for each group [A]."),
    "ksame.methods.shift": _doc("The identity shift: one synthetic identity for each person [S 7]."),
    "ksame.render": _doc("RENDER: portraits, scenes, covers, and overlays for video."),
    "ksame.render.overlay": _doc("Overlays: a new face drawn over a person's own, frame by frame [S 7.3]."),
    "ksame.pipeline": _doc("Drivers: from inputs to a release, for photos, ad hoc methods, open sets and videos."),
    "ksame.audit.report": _doc("The audit's result, and the page that shows it."),
    "ksame.audit.video": _doc("The audit of videos."),
    "ksame.audit": '''"""The audit: attack a release, measure what is left, and report. ``ksame.audit(...)`` runs it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """The package and the public function have one name: calling the package runs the audit."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from ksame.audit.run import audit  # here: it brings everything that the package holds

        return audit(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
''',
    "ksame.lab": _doc("The laboratory: the papers' experiments, and the training of models."),
    "ksame.lab.training": _doc("Training: the appearance model, the parameter GAN and the generator's map."),
}

TEXTS: list[tuple[str, str, str]] = [
    # file (new), old text, new text
    ("src/ksame/core/partition_type.py", """    >>> as_k(20, 12)
    Traceback (most recent call last):
    ksame.core.errors.CannotGuarantee: k must be an integer in [2, 12]: 12 distinct subjects were given. Got 20.
""", """    >>> as_k(20, 12)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ksame.core.errors.CannotGuarantee: k must be an integer in [2, 12]: 12 distinct subjects were given...
"""),
]

# regular expressions over all text files: (glob of the new path, pattern, replacement)
TEXT_RE: list[tuple[str, str, str]] = [
    ("*.py", r'files\("ksame"\)\.joinpath\("models", ', 'files("ksame").joinpath("models", "data", '),
    ("*.py", r'files\("ksame"\) / "models"(?! / "data")', 'files("ksame") / "models" / "data"'),
    ("*", r"(?<![\w/])models/(README\.md|(?:appearance|generator|people|pool|portraits|unasked)\.npz)", r"models/data/\1"),
    ("*", r"unasked\.npz", "artifacts.npz"),
    ("*", r"make_unasked", "make_artifacts"),
    ("*", r"unasked\.csv", "artifacts.csv"),
    ("src/ksame/core/parallel.py",
     r">>> prefetch_count\(3 \* 1280 \* 720, least=2, max_count=12\), (prefetch_count\([^)]*\))\n    \(11, 5\)",
     r">>> prefetch_count(3 * 1280 * 720, least=2, max_count=12)\n    11\n    >>> \1\n    5"),
    ("*.md", r"src/ksame/portraits/", "src/ksame/methods/anonfaces/"),
    ("src/ksame/audit/run.py", r"for videos ``clips`` is", "for videos ``audit_videos`` is"),
    ("src/ksame/audit/utility/columns.py", r"see\(also=features\)", "embed_faces(features=face_columns)"),
    ("src/ksame/audit/utility/columns.py", r"faces\.attributes", "models.attributes"),
    # keywords and names in strings
    ("src/ksame/cli/release_commands.py", r'"journal": ', '"checkpoint": '),
    ("src/ksame/cli/release_commands.py", r'"watch": ', '"progress": '),
    ("src/ksame/lab/training/appearance_model.py", r"base64,\$picture", "base64,$image"),
    ("src/ksame/replace/shift.py", r'(["\'])among must be', r"\1nearest_count must be"),
    ("tests/unit/test_shift.py", r'\{"among": 0\}, UsageError, "among must be', '{"nearest_count": 0}, UsageError, "nearest_count must be'),
    ("tests/unit/test_generator.py", r'\{"picture": False\}', '{"image": False}'),
    ("tests/unit/test_pool.py", r'\("makes", "judges", "scale"\)', '("generator_net", "discriminator_net", "scale")'),
    ("tests/integration/test_left_behind.py", r"\{wait\}m\._seal", "{wait}m._set_times_and_sync"),
    ("tests/unit/test_runtime.py", r"networks\.core\(\)", "runtime.core()"),
    ("src/ksame/__init__.py", r'"Report": "ksame\.(?:audit\.)?report"', '"Report": "ksame.audit.report.result"'),
    ("src/ksame/__init__.py", r'"audit": "ksame\.(?:audit\.)?report"', '"audit": "ksame"'),
    ("src/ksame/audit/report/page.html", r"\{% if pictures %\}", "{% if images %}"),
    ("src/ksame/audit/report/page.html", r"for picture in pictures", "for image in images"),
    ("src/ksame/audit/report/page.html", r"\bpicture\.(before|moments|after|people)", r"image.\1"),
    ("tests/unit/test_pool.py", r'models = tmp_path / "models"\n    models\.mkdir\(\)',
     'models = tmp_path / "models" / "data"\n    models.mkdir(parents=True)'),
    ("scripts/test", r"--include='[^']*'",
     "--include='src/ksame/core/errors.py,src/ksame/core/guarantee.py,src/ksame/core/partition_type.py,"
     "src/ksame/core/faces.py,src/ksame/partition/*,src/ksame/replace/*'"),
]
TEST_MOVES = {
    "scripts/make_unasked.py": "scripts/make_artifacts.py",
    "scripts/unasked.csv": "scripts/artifacts.csv",
    **{f"tests/unit/test_{a}.py": f"tests/unit/test_{b}.py" for a, b in {
        "ahead": "parallel", "apart": "strata", "gather": "photos", "naming": "identify", "journal": "checkpoint",
        "networks": "runtime", "shelf": "mesh_store", "left": "remaining", "masking": "overlay",
        "media": "io", "detect": "detectors", "embedding": "recognisers", "synthesis": "generator",
        "evidence": "pairing", "judge": "partition_quality", "people": "subject_codes",
        "pool_gan": "parameter_gan", "portraits": "anonfaces", "surrogate": "portrait_search",
        "represent": "spaces", "training": "appearance_training", "watching": "video_compare",
        "video_pick": "video_seek", "videos": "pipeline_videos", "videos_check": "residual",
        "track": "tracking", "microaggregator": "microaggregator",
    }.items() if a != b},
    "tests/attack/test_pixels.py": "tests/attack/test_degradation.py",
    "tests/attack/test_recognise.py": "tests/attack/test_attack_recognisers.py",
    "tests/attack/test_see.py": "tests/attack/test_embed.py",
    "tests/property/test_media_properties.py": "tests/property/test_io_properties.py",
}
DOCSTRINGS = {
    "ksame.cli.shell:print_json": "Print one JSON object on stdout.",
    "ksame.io.photo_write:sibling_path": "Return a hidden path beside a target, with a fresh name.",
    "ksame.io.photo_write:sync_to_disk": "Flush a file or folder to the disk.",
    "ksame.render.overlay.sampling:sample_colours": "Sample an image at places (h, w, 2), bilinearly.",
}
CONTRACTS = """[[tool.importlinter.contracts]]
name = "Imports point down only"
type = "layers"
containers = ["ksame"]
layers = [
  "__main__",
  "cli",
  "lab",
  "audit",
  "attack",
  "pipeline",
  "release",
  "methods",
  "render",
  "analysis",
  "spaces | partition | replace",
  "models",
  "io",
  "core",
]
exhaustive = true

[[tool.importlinter.contracts]]
name = "An attacker sees a release, not how it was made"
type = "forbidden"
source_modules = ["ksame.attack"]
forbidden_modules = [
  "ksame.partition",
  "ksame.replace",
  "ksame.pipeline",
  "ksame.methods.anonfaces",
  "ksame.methods.drawing",
  "ksame.methods.ksame",
  "ksame.methods.shift",
]
allow_indirect_imports = true
"""
